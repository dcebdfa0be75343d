// keep and drop: which queries stay.

#include "core/base/address.hh"
#include "core/base/prefix.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/engine/connection_choices.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/source/traffic_kinds.hh"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace reprise::mutator {

namespace {

/// Sources that no query can come from over the Internet: this network, private use, loopback,
/// link-local, multicast and reserved (RFC 6890, RFC 4193).
constexpr std::array<std::string_view, 12> kSpoofed{
    "0.0.0.0/8",   "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
    "224.0.0.0/3", "::/128",     "::1/128",     "fe80::/10",      "fc00::/7",      "ff00::/8"};

class SpoofedSources {
public:
    SpoofedSources() {
        for (const std::string_view text : kSpoofed) {
            prefixes_.push_back(known_prefix(text));
        }
    }

    [[nodiscard]] bool hold(const IpAddress& address) const {
        return any_holds(prefixes_, address);
    }

private:
    std::vector<Prefix> prefixes_;
};

/// Both rules, by which part of the queries goes.
class SieveRule : public Rule {
public:
    SieveRule(Arguments& arguments, const RuleSettings& settings, bool drops)
        : selector_(arguments, settings.seed, false), drops_(drops),
          spoofed_(drops && arguments.get_switch("spoofed").value_or(false)) {
        if (arguments.takes_all() && !spoofed_) {
            arguments.finish(); // a misspelt key explains itself
            arguments.fail("", drops ? "drops every query; give it share=, where. or spoofed=on"
                                     : "keeps every query; give it share= or where.");
        }
    }

    void apply(Batch& batch) override {
        retain(batch, [&](const Item& item) {
            const bool stays = drops_ ? !drops(item) : selector_.takes(item);
            count(item, stays);
            return stays;
        });
    }

    [[nodiscard]] RuleCounts counts() const override {
        RuleCounts counts = basic_counts(selector_.selector(), dropped_);
        counts["seen"] = seen_;
        counts["dropped"] = dropped_;
        if (closes_dropped_ != 0) {
            counts["closes_dropped"] = closes_dropped_;
        }
        return counts;
    }

private:
    bool drops(const Item& item) {
        return (!spoofed_ || sources_.hold(item.source.address)) && selector_.takes_whole(item);
    }

    void count(const Item& item, bool stays) {
        const bool close = item.is_close();
        seen_ += close ? 0 : 1;
        dropped_ += close || stays ? 0 : 1;
        closes_dropped_ += close && !stays ? 1 : 0;
    }

    ConnectionSelector selector_;
    bool drops_;
    bool spoofed_;
    SpoofedSources sources_;
    std::uint64_t seen_ = 0;
    std::uint64_t dropped_ = 0;
    std::uint64_t closes_dropped_ = 0;
};

} // namespace

RuleKind keep_kind() {
    return {.name = "keep",
            .first_key = "share",
            .help = "Keeps the queries that where. and share= choose, drops the others; "
                    "by=source thins by whole sources",
            .make = [](Arguments& arguments, const RuleSettings& settings) {
                return std::make_unique<SieveRule>(arguments, settings, false);
            }};
}

RuleKind drop_kind() {
    return {.name = "drop",
            .first_key = "share",
            .help = "Drops the queries that where. and share= choose; spoofed=on: only those from "
                    "sources that cannot be real (private, loopback, link-local, multicast)",
            .make = [](Arguments& arguments, const RuleSettings& settings) {
                return std::make_unique<SieveRule>(arguments, settings, true);
            }};
}

std::vector<RuleKind> traffic_rules() {
    return {transport_kind(), class_kind(), keep_kind(),
            drop_kind(),      remap_kind(), anonymise_kind()};
}

} // namespace reprise::mutator
