// keep and drop: which queries stay.

#include "core/base/prefix.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {

namespace {

/// Sources that no query can come from over the Internet: this network, private use, loopback,
/// link-local, multicast and reserved (RFC 6890, RFC 4193).
constexpr std::array<std::string_view, 12> kSpoofed{
    "0.0.0.0/8",   "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
    "224.0.0.0/3", "::/128",     "::1/128",     "fe80::/10",      "fc00::/7",      "ff00::/8"};

/// Both rules, by which part of the queries goes.
class SieveRule : public Rule {
public:
    SieveRule(Arguments& arguments, const RuleSettings& settings, bool drops)
        : Rule(selector_of(arguments, settings, drops)), drops_(drops) {}

private:
    static Selector selector_of(Arguments& arguments, const RuleSettings& settings, bool drops) {
        const Closes closes = drops ? Closes::kAll : Closes::kAny;
        Selector selector(arguments, settings.seed, settings.sees_closes ? closes : Closes::kNone);
        if (drops && arguments.get_switch("spoofed").value_or(false)) {
            std::vector<Prefix> sources;
            std::ranges::transform(kSpoofed, std::back_inserter(sources), known_prefix);
            selector.restrict_to(std::move(sources));
        } else if (arguments.takes_all()) {
            arguments.fail_lacking(drops ? "drops every query; give it share=, where. or spoofed=on"
                                         : "keeps every query; give it share= or where.");
        }
        return selector;
    }

    Outcome change(Query& query, Batch& /*batch*/) override {
        return drops_ ? drop(query) : Outcome::kSame;
    }

    Outcome leave(Query& query) override { return drops_ ? Outcome::kSame : drop(query); }

    Outcome drop(const Query& query) {
        ++(query.is_close() ? closes_dropped_ : dropped_);
        changed_ = dropped_;
        return Outcome::kDropped;
    }

    bool drops_;
    std::uint64_t& changed_ = count("changed");
    std::uint64_t& dropped_ = count("dropped");
    std::uint64_t& closes_dropped_ = rare_count("closes_dropped");
};

} // namespace

RuleKind keep_kind() {
    return {
        .name = "keep",
        .first_key = "share",
        .help = "Keeps the queries that where. and share= choose, drops the others; "
                "by=source thins by whole sources",
        .make = [](Arguments& arguments, const RuleSettings& settings) -> std::unique_ptr<Rule> {
            return std::make_unique<SieveRule>(arguments, settings, false);
        }};
}

RuleKind drop_kind() {
    return {
        .name = "drop",
        .first_key = "share",
        .help = "Drops the queries that where. and share= choose; spoofed=on: only those from "
                "sources that cannot be real (private, loopback, link-local, multicast)",
        .make = [](Arguments& arguments, const RuleSettings& settings) -> std::unique_ptr<Rule> {
            return std::make_unique<SieveRule>(arguments, settings, true);
        }};
}

} // namespace reprise::rules
