#pragma once
// What a rule did to the queries of each connection, so that the connection's close shares their
// choice.

#include "core/base/address.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

namespace reprise::mutator {

/// Bits by connection, from its first query to its close. Memory: about 80 bytes for each of the
/// last `most` connections; older ones are forgotten.
class ConnectionChoices {
public:
    explicit ConnectionChoices(size_t most = 1UL << 20U) : most_(most) {}

    /// Adds bits to the choice of the source's connection; none where that is 0.
    void add(const Endpoint& source, std::uint64_t connection, std::uint8_t bits);

    /// The bits, once; nothing where the connection is not known.
    std::optional<std::uint8_t> take(const Endpoint& source, std::uint64_t connection);

    /// Connections known now.
    [[nodiscard]] size_t size() const { return choices_.size(); }

private:
    size_t most_;
    std::unordered_map<std::uint64_t, std::uint8_t> choices_; ///< by hash of source and connection
    std::deque<std::uint64_t> order_;                         ///< of appearance; some are gone
};

/// A selector that answers for closes as well.
class ConnectionSelector {
public:
    /// Selector's.
    ConnectionSelector(Arguments& arguments, std::uint64_t seed, bool by_source);

    /// A query, or a close: whether any query of its connection was taken.
    bool takes(const Item& item);

    /// The same, but of a close: whether every query of its connection was taken.
    bool takes_whole(const Item& item);

    [[nodiscard]] const Selector& selector() const { return selector_; }

private:
    std::uint8_t choice(const Item& item);

    Selector selector_;
    ConnectionChoices choices_;
};

} // namespace reprise::mutator
