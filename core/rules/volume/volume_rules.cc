// heavy, duplicate, collapse, attack: rules that change how many queries there are.

#include "core/base/error.hh"
#include "core/base/flat_ids.hh"
#include "core/base/random.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {
namespace {

/// Keeps the queries of the sources that ask most in the inputs, as they are read and as far as the
/// selector takes them; equal counts are decided by address, the lower first. Queries that it does
/// not take stay. Memory: about 64 bytes a source.
class HeavyRule : public Rule {
public:
    HeavyRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kBySource)), surveyed_(selector()),
          top_(arguments.get_integer("top", 1, 1'000'000'000).value_or(0)) {
        if (top_ == 0) {
            arguments.fail({}, "has no top=; give how many of the busiest sources shall stay");
        }
    }

    [[nodiscard]] bool surveys() const override { return true; }

    void survey(const Query& query) override {
        if (!query.is_close() && surveyed_.takes(query)) {
            const std::uint32_t source = sources_.add(query.source.address);
            counts_.resize(sources_.size());
            ++counts_[source];
        }
    }

private:
    void choose() {
        std::vector<std::uint32_t> order(sources_.size());
        std::iota(order.begin(), order.end(), 0U);
        const auto kept = static_cast<size_t>(std::min<std::uint64_t>(top_, order.size()));
        std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(kept),
                                  [this](std::uint32_t a, std::uint32_t b) {
                                      return counts_[a] != counts_[b] ? counts_[a] > counts_[b]
                                                                      : sources_[a] < sources_[b];
                                  });
        heavy_.resize(order.size());
        for (size_t i = 0; i < kept; ++i) {
            heavy_[order[i]] = true;
        }
    }

    // Closes go with their source; of a connection whose queries stay they stay, too.
    Outcome change(Query& query, Batch& /*batch*/) override {
        if (heavy_.size() < sources_.size()) {
            choose();
        }
        if (const auto source = sources_.find(query.source.address); source && heavy_[*source]) {
            return Outcome::kSame;
        }
        dropped_ += query.is_close() ? 0U : 1U;
        return Outcome::kDropped;
    }

    Selector surveyed_; ///< sees the trace once, as the other one does
    std::uint64_t top_;
    AddressTable sources_;
    std::vector<std::uint64_t> counts_; ///< by number
    std::vector<bool> heavy_;           ///< the same; empty until choose()
    std::uint64_t& dropped_ = count("dropped");
};

// Addresses out of a prefix by number, in no visible order.

/// Gives each number below size() an address of its own: a keyed permutation of the prefix's host
/// parts without the first and the last (in IPv6 of its lowest 62 bits). Nothing is stored.
class AddressPool {
public:
    /// The prefix must leave at least 2 bits.
    AddressPool(const Prefix& prefix, std::uint64_t key) : prefix_(prefix), key_(key) {
        const unsigned bits = std::min(prefix.free_bits(), 62U);
        mask_ = (std::uint64_t{1} << bits) - 1;
        half_ = (bits + 1) / 2;
    }

    [[nodiscard]] const Prefix& prefix() const { return prefix_; }

    [[nodiscard]] std::uint64_t size() const { return mask_ - 1; }

    /// Numbers from size() on begin again.
    // Walking the permutation past the two values that are no hosts keeps it one on the others.
    [[nodiscard]] IpAddress at(std::uint64_t number) const {
        std::uint64_t host = permuted(number % size() + 1);
        while (host == 0 || host == mask_) {
            host = permuted(host);
        }
        return prefix_.host(host).value_or(prefix_.address);
    }

private:
    // Each step (add, multiply by an odd number, fold the upper half into the lower) can be undone
    // on numbers of these many bits, so the whole is a permutation of them.
    [[nodiscard]] std::uint64_t permuted(std::uint64_t value) const {
        for (std::uint64_t round = 0; round < 3; ++round) {
            const std::uint64_t key = mixed_seed(key_, round);
            value = ((value + key) * (key | 1U)) & mask_;
            value ^= value >> half_;
        }
        return value;
    }

    Prefix prefix_;
    std::uint64_t mask_ = 0;
    unsigned half_ = 0;
    std::uint64_t key_;
};

constexpr std::string_view kCopies4 = "10.0.0.0/8"; ///< private use (RFC 1918)
constexpr std::string_view kCopies6 = "fd00::/8";   ///< the same (RFC 4193)
/// Uses of a rule's seed, apart from the selector's.
constexpr std::uint64_t kPool4Use = 4;
constexpr std::uint64_t kPool6Use = 6;
constexpr std::uint64_t kMostDuplicates = 10'000;

/// Of the prefix that is given, or the usual one.
AddressPool pool_of(const Arguments& arguments, const std::vector<Prefix>& given,
                    std::string_view usual, std::string_view each, std::uint64_t key) {
    const Prefix prefix = given.empty() ? known_prefix(usual) : given.front();
    if (given.size() > 1 || prefix.free_bits() < 2) {
        arguments.fail("prefix",
                       fmt::format("needs one prefix{}, with at least 2 bits left free", each));
    }
    return {prefix, key};
}

AddressPool copies_of(Arguments& arguments, bool v4, std::uint64_t seed) {
    auto given = get_prefixes(arguments, "prefix");
    std::erase_if(given, [v4](const Prefix& one) { return one.address.is_v4() != v4; });
    return pool_of(arguments, given, v4 ? kCopies4 : kCopies6, " a family",
                   mixed_seed(seed, v4 ? kPool4Use : kPool6Use));
}

/// Each query taken comes `copies` times at the same time: once as it is and, behind it, from fresh
/// sources. A source's n-th copy always has the same address. Connections get new numbers, so that
/// every copy has its own. Memory: about 64 bytes a source.
class DuplicateRule : public PiecewiseRule {
public:
    DuplicateRule(Arguments& arguments, const RuleSettings& settings)
        : PiecewiseRule(Selector(arguments, settings.seed, Closes::kNone, true)),
          copies_(static_cast<std::uint32_t>(
              arguments.get_integer("copies", 1, kMostDuplicates).value_or(0))),
          pool4_(copies_of(arguments, true, settings.seed)),
          pool6_(copies_of(arguments, false, settings.seed)), all_(arguments.takes_all()) {
        if (copies_ == 0) {
            arguments.fail({},
                           "has no copies=; give how many copies of each query to send, like 2");
        }
    }

private:
    bool work(Query& query, Batch& batch) override {
        for (; done_ == 0 || done_ < wanted_; ++done_) {
            if (full(batch)) {
                return false;
            }
            done_ == 0 ? begin(query, batch) : copy(query, batch);
        }
        done_ = 0;
        return true;
    }

    bool is_copied(const Query& query) {
        const bool taken = takes(query);
        if (all_) {
            return true;
        }
        if (query.is_close()) {
            return copied_.take(query.source, query.connection).has_value();
        }
        if (taken) {
            copied_.add(query.source, query.connection, 1);
        }
        return taken;
    }

    void begin(Query& query, Batch& batch) {
        wanted_ = is_copied(query) ? copies_ : 1;
        if (wanted_ > 1) {
            first_copy_ = number_of(query.source.address) * (copies_ - 1);
        }
        if (query.connection >= trace::kMaxConnection / copies_) {
            throw Error(
                "rule duplicate: the trace's connections have too large numbers for so many "
                "copies; give fewer copies=");
        }
        query.connection *= copies_;
        pass(query, batch);
    }

    /// The next one.
    void copy(Query query, Batch& batch) {
        const AddressPool& pool = query.source.address.is_v4() ? pool4_ : pool6_;
        query.source.address = pool.at(first_copy_ + done_ - 1);
        query.connection += query.connection == 0 ? 0U : done_;
        query.message = batch.copy(query.message); // rules behind this one may edit each
        put(query, batch);
        added_ += query.is_close() ? 0U : 1U;
    }

    std::uint64_t number_of(const IpAddress& source) {
        std::uint32_t& next = source.is_v4() ? sources4_ : sources6_;
        const auto [number, fresh] = numbers_.find_or_add(source, next);
        if (fresh) {
            ++next;
            const AddressPool& pool = source.is_v4() ? pool4_ : pool6_;
            inside_prefix_ += pool.prefix().holds(source) ? 1U : 0U;
            shared_ += std::uint64_t{next} * (copies_ - 1) > pool.size() ? 1U : 0U;
        }
        return number;
    }

    std::uint32_t copies_; ///< the original included
    AddressPool pool4_;
    AddressPool pool6_;
    bool all_;           ///< the selector takes every query
    AddressIds numbers_; ///< of sources, each family from 0
    std::uint32_t sources4_ = 0;
    std::uint32_t sources6_ = 0;
    ConnectionChoices copied_;     ///< open connections with copies, unless `all_`
    std::uint32_t done_ = 0;       ///< of the query at work: how many times it was emitted
    std::uint32_t wanted_ = 0;     ///< and how many times it shall be
    std::uint64_t first_copy_ = 0; ///< its first copy's source by number
    std::uint64_t& added_ = count("added");
    /// Sources of the trace that a copy's may collide with.
    std::uint64_t& inside_prefix_ = count("inside_prefix");
    /// Sources whose copies found no room of their own.
    std::uint64_t& shared_ = count("shared_addresses");
};

/// Drops a client's own retransmits, as the controller's --collapse-retransmits does.
class CollapseRule : public Rule {
public:
    CollapseRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kNone)),
          retransmits_(static_cast<Nanoseconds>(
              std::llround(arguments.get_number("timeout", 1e-6, 1e6).value_or(5) * 1e9))) {}

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        if (!retransmits_.repeats(query)) {
            return Outcome::kSame;
        }
        ++dropped_;
        return Outcome::kDropped;
    }

    trace::Retransmits retransmits_;
    std::uint64_t& dropped_ = count("dropped");
};

// attack: an attack mixed into the trace.

constexpr size_t kLabel = 12; ///< random characters: 36^12 names
constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::uint64_t kLowestPort = 1024;
constexpr std::uint64_t kPoolUse = 4;                    ///< of the seed
constexpr std::string_view kAttackers = "100.64.0.0/10"; ///< shared address space (RFC 6598)
constexpr size_t kLongestSuffix = 255 - 1 - kLabel;      ///< leaves room for the random label

Nanoseconds seconds_of(Arguments& arguments, std::string_view key, std::string_view fallback) {
    const auto value = parse_seconds(arguments.get_text(key).value_or(std::string(fallback)));
    if (!value) {
        arguments.fail(key, "must be seconds with at most 9 decimals, like 30 or 0.5");
    }
    return *value;
}

double rate_of(Arguments& arguments) {
    if (!arguments.takes_all()) {
        arguments.fail({}, "adds queries and takes no share and no where; leave them out");
    }
    const auto rate = arguments.get_number("rate", 1e-3, 1e8);
    if (!rate || !arguments.has("for")) {
        arguments.fail({}, "needs rate= in queries/s and for= in seconds");
    }
    return *rate;
}

/// Mixes an attack into the trace: queries made up, merged by time. It ends with the trace at the
/// latest.
class AttackRule : public PiecewiseRule {
public:
    AttackRule(Arguments& arguments, const RuleSettings& settings)
        : rate_(rate_of(arguments)),
          pool_(pool_of(arguments, get_prefixes(arguments, "prefix"), kAttackers, "",
                        mixed_seed(settings.seed, kPoolUse))),
          at_(seconds_of(arguments, "at", "0")), length_(seconds_of(arguments, "for", "")),
          arrivals_(arguments.get_switch("poisson").value_or(true) ? Arrival::kPoisson
                                                                   : Arrival::kFixed,
                    rate_),
          sources_(arguments.get_integer("sources", 1, 1'000'000'000).value_or(1000)),
          random_(settings.seed),
          destination_{trace::example_server(!pool_.prefix().address.is_v4()), kDnsPort} {
        if (sources_ > pool_.size()) {
            arguments.fail("sources", fmt::format("has {} addresses, but prefix has room for {}",
                                                  sources_, pool_.size()));
        }
        const Name name = read_name(arguments);
        QueryShape shape{.type = 1};
        if (const auto type = arguments.get_text("type")) {
            shape.type = type_value(arguments, "type", *type);
        }
        if (const auto transport = arguments.get_text("transport")) {
            transport_ = transport_value(arguments, "transport", *transport);
        }
        shape.recursion_desired = arguments.get_switch("rd").value_or(false);
        build_query(query_, shape, name.bytes());
    }

private:
    /// The name, with room for a random label before it unless it is fixed.
    Name read_name(Arguments& arguments) {
        fixed_ = arguments.has("fixed");
        const auto names = get_names(arguments, fixed_ ? "fixed" : "name");
        if (names.size() != 1 || (fixed_ && arguments.has("name"))) {
            arguments.fail({},
                           "needs either name=SUFFIX, for random names below it, or fixed=NAME");
        }
        const Bytes suffix = names.front().bytes();
        if (!fixed_ && suffix.size() > kLongestSuffix) {
            arguments.fail("name", "is too long for a label before it; give at most 242 bytes");
        }
        Name name;
        if (!fixed_) {
            name.add_label(std::string(kLabel, ' '));
        }
        name.add(suffix);
        return name;
    }

    void start(const Query& first) {
        started_ = true;
        first_ = added(std::max<Nanoseconds>(first.time, 0), at_);
        offset_ = arrivals_.next(random_);
        if (arrivals_.kind() == Arrival::kPoisson) { // it begins with a gap
            offset_ = arrivals_.next(random_);
        }
    }

    Query make(Batch& batch) {
        Query query;
        query.time = added(first_, offset_);
        query.source = {pool_.at(random_.below(sources_)),
                        static_cast<std::uint16_t>(random_.between(kLowestPort, 65'535))};
        query.destination = destination_;
        query.transport = transport_;
        const std::span<std::uint8_t> message = batch.copy(query_);
        store16(message.data(), static_cast<unsigned>(random_.below(65'536)));
        for (size_t i = 1; !fixed_ && i <= kLabel; ++i) {
            message[kDnsHeaderSize + i] =
                static_cast<std::uint8_t>(kCharacters[random_.below(kCharacters.size())]);
        }
        query.message = message;
        return query;
    }

    /// False where the batch is full before.
    bool add_until(Nanoseconds time, Batch& batch) {
        while (offset_ < static_cast<double>(length_) && added(first_, offset_) <= time) {
            if (full(batch)) {
                return false;
            }
            put(make(batch), batch);
            ++number_;
            offset_ = arrivals_.next(random_);
        }
        return !full(batch);
    }

    bool work(Query& query, Batch& batch) override {
        if (!started_) {
            start(query);
        }
        if (!found_destination_ &&
            query.destination.address.family == destination_.address.family) {
            destination_ = query.destination;
            found_destination_ = true;
        }
        if (!add_until(query.time, batch)) {
            return false;
        }
        takes(query);
        pass(query, batch);
        return true;
    }

    double rate_; ///< queries/s
    AddressPool pool_;
    Nanoseconds at_;     ///< from the first query
    Nanoseconds length_; ///< of the attack
    Arrivals arrivals_;
    std::uint64_t sources_;
    bool fixed_ = true; ///< no random label before the name
    Transport transport_ = Transport::kUdp;
    std::vector<std::uint8_t> query_; ///< without id and random label
    Random random_;
    Endpoint destination_; ///< of the trace's first query of the attack's family, or documentation
    bool found_destination_ = false;
    bool started_ = false;
    Nanoseconds first_ = 0;
    double offset_ = 0; ///< of the next attack query from the attack's beginning, ns
    std::uint64_t& number_ = count("added");
};

} // namespace

std::vector<RuleKind> volume_rules() {
    return {{.name = "heavy",
             .first_key = "top",
             .help = "keeps only the queries of the top= sources that ask most, as the inputs have "
                     "them: stands before rules that change sources; reads the inputs twice",
             .make = make<HeavyRule>},
            {.name = "duplicate",
             .first_key = "copies",
             .help = "each query comes copies= times, from fresh sources out of "
                     "prefix=PREFIX[,PREFIX6] (10.0.0.0/8, fd00::/8); by=source by default",
             .make = make<DuplicateRule>,
             .effect = Effect::kSources},
            {.name = "collapse",
             .first_key = "timeout",
             .help = "drops a client's UDP retransmits within timeout= seconds (5): same address, "
                     "port, id and question",
             .make = make<CollapseRule>},
            {.name = "attack",
             .first_key = "rate",
             .help = "mixes in rate= queries/s from at= seconds (0) for= seconds, at most to the "
                     "trace's end: sources= (1000) out of prefix= (100.64.0.0/10), name=SUFFIX for "
                     "random names below it or fixed=NAME, type= (A), transport= (udp), rd=on, "
                     "poisson=off (on)",
             .make = make<AttackRule>,
             .effect = Effect::kSources}};
}

} // namespace reprise::rules
