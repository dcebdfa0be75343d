#pragma once
// Rules that change how many queries there are.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/dns/message.hh"
#include "core/trace/retransmits.hh"
#include "core/wire/query.hh"
#include "mutator/rules/engine/connection_choices.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"
#include "mutator/rules/engine/values.hh"
#include "mutator/rules/source/source_addresses.hh"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace reprise::mutator {

/// Each query taken comes `copies` times at the same time: once as it is and, behind it, from fresh
/// sources. A source's n-th copy always has the same address. Connections get new numbers, so that
/// every copy has its own. Memory: about 64 bytes a source.
class DuplicateRule : public PiecewiseRule {
public:
    struct Settings {
        std::uint32_t copies = 2; ///< the original included
        AddressPool pool4;
        AddressPool pool6;
        bool all = false; ///< the selector takes every query
    };

    DuplicateRule(Selector selector, const Settings& settings)
        : selector_(std::move(selector)), settings_(settings) {}

    [[nodiscard]] RuleCounts counts() const override;

private:
    bool work(Item& item, Batch& batch) override;
    bool takes(const Item& item);
    bool takes_close(const Item& close);
    void begin(Item& item, Batch& batch);
    void copy(Item item, Batch& batch);
    std::uint64_t number_of(const IpAddress& source);

    Selector selector_;
    Settings settings_;
    std::unordered_map<IpAddress, std::uint32_t> numbers_; ///< of sources, each family from 0
    std::uint32_t sources4_ = 0;
    std::uint32_t sources6_ = 0;
    ConnectionChoices copied_;     ///< open connections with copies, unless `all`
    std::uint32_t done_ = 0;       ///< of the item at work: how many times it was emitted
    std::uint32_t wanted_ = 0;     ///< and how many times it shall be
    std::uint64_t first_copy_ = 0; ///< its first copy's source by number
    std::uint64_t added_ = 0;
    std::uint64_t inside_prefix_ = 0; ///< sources of the trace that a copy's may collide with
    std::uint64_t shared_ = 0;        ///< sources whose copies found no room of their own
};

/// Drops a client's own retransmits, as the controller's --collapse-retransmits does.
class CollapseRule : public Rule {
public:
    CollapseRule(Selector selector, Nanoseconds timeout)
        : selector_(std::move(selector)), retransmits_(timeout) {}

    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Selector selector_;
    trace::Retransmits retransmits_;
    std::uint64_t dropped_ = 0;
};

/// Mixes an attack into the trace: generated queries, merged by time. It ends with the trace at the
/// latest.
class AttackRule : public PiecewiseRule {
public:
    struct Settings {
        double rate = 1000; ///< queries/s
        Nanoseconds at = 0; ///< from the first query
        Nanoseconds length = 0;
        bool poisson = true;
        std::uint64_t sources = 1;
        AddressPool pool;
        WireBytes name;    ///< the suffix, or the whole name
        bool fixed = true; ///< no random label before the name
        std::uint16_t type = 1;
        Transport transport = Transport::kUdp;
        bool recursion_desired = false;
        std::uint64_t seed = 1;
    };

    explicit AttackRule(const Settings& settings);

    [[nodiscard]] RuleCounts counts() const override;

private:
    bool work(Item& item, Batch& batch) override;
    void start(const Item& first);
    void advance();
    bool add_until(Nanoseconds time, Batch& batch);
    Item make(Batch& batch);
    void write_message(std::span<std::uint8_t> out);

    Settings settings_;
    Random random_;
    Endpoint destination_; ///< of the trace's first query of the attack's family, or documentation
    bool found_destination_ = false;
    bool started_ = false;
    Nanoseconds first_ = 0;
    double offset_ = 0; ///< of the next attack query from the attack's beginning, ns
    std::uint64_t number_ = 0;
    std::uint64_t seen_ = 0;
};

/// Keeps the queries of the sources that ask most in the inputs, as they are read and as far as the
/// selector takes them; equal counts are decided by address, the lower first. Queries that it does
/// not take stay. Memory: about 64 bytes a source.
class HeavyRule : public Rule {
public:
    /// Two selectors alike: each sees the trace once.
    HeavyRule(Selector surveyed, Selector selector, std::uint64_t top)
        : surveyed_(std::move(surveyed)), selector_(std::move(selector)), top_(top) {}

    [[nodiscard]] bool surveys() const override { return true; }

    void survey(const Item& item) override;
    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    void choose();

    Selector surveyed_;
    Selector selector_;
    std::uint64_t top_;
    std::unordered_map<IpAddress, std::uint64_t> counts_; ///< until choose()
    std::unordered_set<IpAddress> heavy_;
    bool chosen_ = false;
    std::uint64_t dropped_ = 0;
};

} // namespace reprise::mutator
