// keep and drop: which queries stay; remap: sources in a prefix of the experimenter's.

#include "core/base/address.hh"
#include "core/base/flat_ids.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/engine/values.hh"
#include "core/trace/forms/message_source.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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
template <bool kDrops> class SieveRule : public Rule {
public:
    SieveRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(selector_of(arguments, settings)) {}

private:
    static Selector selector_of(Arguments& arguments, const RuleSettings& settings) {
        const Closes closes = kDrops ? Closes::kAll : Closes::kAny;
        Selector selector(arguments, settings.seed, settings.sees_closes ? closes : Closes::kNone);
        if (kDrops && arguments.get_switch("spoofed").value_or(false)) {
            std::vector<Prefix> sources;
            std::ranges::transform(kSpoofed, std::back_inserter(sources), known_prefix);
            selector.restrict_to(std::move(sources));
        } else if (arguments.takes_all()) {
            arguments.fail_lacking(kDrops
                                       ? "drops every query; give it share=, where. or spoofed=on"
                                       : "keeps every query; give it share= or where.");
        }
        return selector;
    }

    Outcome change(Query& query, Batch& /*batch*/) override {
        return kDrops ? drop(query) : Outcome::kSame;
    }

    Outcome leave(Query& query) override { return kDrops ? Outcome::kSame : drop(query); }

    Outcome drop(const Query& query) {
        ++(query.is_close() ? closes_dropped_ : dropped_);
        changed_ = dropped_;
        return Outcome::kDropped;
    }

    std::uint64_t& changed_ = count("changed");
    std::uint64_t& dropped_ = count("dropped");
    std::uint64_t& closes_dropped_ = rare_count("closes_dropped");
};

} // namespace

RuleKind keep_kind() {
    return {.name = "keep",
            .first_key = "share",
            .help = "Keeps the queries that where. and share= choose, drops the others; "
                    "by=source thins by whole sources",
            .make = make<SieveRule<false>>};
}

RuleKind drop_kind() {
    return {.name = "drop",
            .first_key = "share",
            .help = "Drops the queries that where. and share= choose; spoofed=on: only those from "
                    "sources that cannot be real (private, loopback, link-local, multicast)",
            .make = make<SieveRule<true>>};
}

namespace {

// remap: sources spread into a prefix of the experimenter's, one to one while it has room.

/// Most sources that are told apart by a table: 340 MB while it grows.
constexpr std::uint64_t kMostSources = 1UL << 22U;
constexpr std::uint64_t kSharedUse = 0x4e3a9;

/// One prefix and the sources that live in it by now.
class Home {
public:
    explicit Home(const Prefix& prefix)
        : prefix_(prefix), room_(room_of(prefix)), most_(std::min(room_, kMostSources)) {}

    [[nodiscard]] bool is_v4() const { return prefix_.address.is_v4(); }

    /// The source's new address. Sets `shared` where another source may have the same.
    IpAddress address_of(const IpAddress& source, std::uint64_t key, bool& shared) {
        const auto number = numbers_.size() < most_
                                ? std::optional(numbers_.find_or_add(source, numbers_.size()).first)
                                : numbers_.find(source);
        shared = !number;
        return at(number ? std::uint64_t{*number} : source_key(source, key) % room_);
    }

    [[nodiscard]] size_t sources() const { return numbers_.size(); }

private:
    // The first address of a subnet, and in IPv4 the last, are no host's.
    static std::uint64_t room_of(const Prefix& prefix) {
        const unsigned bits = std::min(prefix.free_bits(), 62U);
        const std::uint64_t reserved = prefix.address.is_v4() ? 2 : 1;
        return bits < 2 ? 1UL << bits : (1UL << bits) - reserved;
    }

    [[nodiscard]] IpAddress at(std::uint64_t number) const {
        return prefix_.host(number + (prefix_.free_bits() < 2 ? 0 : 1)).value_or(prefix_.address);
    }

    Prefix prefix_;
    std::uint64_t room_;
    std::uint64_t most_;
    AddressIds numbers_;
};

class RemapRule : public Rule {
public:
    RemapRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kAny, true)),
          key_(mixed_seed(settings.seed, kSharedUse)) {
        const auto prefixes = get_prefixes(arguments, "to");
        if (prefixes.empty()) {
            arguments.fail_lacking("needs to=, a prefix as 198.18.0.0/15, or one of each family");
        }
        for (const Prefix& prefix : prefixes) {
            homes_.emplace_back(prefix);
        }
        const bool alike = homes_.front().is_v4() == homes_.back().is_v4();
        if (homes_.size() > 1 && (alike || homes_.size() > 2)) {
            arguments.fail("to", "takes one prefix, or one IPv4 and one IPv6 prefix");
        }
    }

private:
    // Where only the other family has a prefix, the source changes its family and takes the
    // destination with it.
    Outcome change(Query& query, Batch& /*batch*/) override {
        const bool v4 = query.source.address.is_v4();
        Home& home = homes_.front().is_v4() == v4 ? homes_.front() : homes_.back();
        const size_t known = home.sources();
        bool shared = false;
        const IpAddress address = home.address_of(query.source.address, key_, shared);
        sources_ += home.sources() - known;
        const bool moves = home.is_v4() != v4;
        if (query.destination.address.is_v4() != home.is_v4()) {
            query.destination.address = trace::example_server(!home.is_v4());
        }
        if (!query.is_close()) {
            shared_ += shared ? 1U : 0U;
            family_changed_ += moves ? 1U : 0U;
        }
        return set(query.source.address, address);
    }

    std::uint64_t key_;
    std::vector<Home> homes_; ///< one, or one of each family
    std::uint64_t& sources_ = count("sources");
    std::uint64_t& shared_ = rare_count("shared");
    std::uint64_t& family_changed_ = rare_count("family_changed");
};

} // namespace

RuleKind remap_kind() {
    return {.name = "remap",
            .first_key = "to",
            .help = "Gives sources addresses of a prefix, in order of appearance, one to one while "
                    "it has room: to=PREFIX or to=PREFIX4,PREFIX6; with one prefix sources of the "
                    "other family move into it; share= is by source",
            .make = make<RemapRule>,
            .effect = Effect::kSources};
}

} // namespace reprise::rules
