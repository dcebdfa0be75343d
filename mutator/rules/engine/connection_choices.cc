#include "mutator/rules/engine/connection_choices.hh"

#include "core/base/address.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"
#include "mutator/rules/engine/source_key.hh"

#include <cstdint>
#include <optional>

namespace reprise::mutator {
namespace {

constexpr std::uint8_t kTaken = 1;
constexpr std::uint8_t kLeft = 2;

std::uint64_t key_of(const Endpoint& source, std::uint64_t connection) {
    return source_key(source.address, mixed_seed(connection, std::uint64_t{source.port}));
}

} // namespace

void ConnectionChoices::add(const Endpoint& source, std::uint64_t connection, std::uint8_t bits) {
    if (connection == 0) {
        return;
    }
    const auto [found, fresh] = choices_.try_emplace(key_of(source, connection), std::uint8_t{0});
    found->second |= bits;
    if (fresh) {
        order_.push_back(found->first);
    }
    if (order_.size() > most_) {
        choices_.erase(order_.front());
        order_.pop_front();
    }
}

std::optional<std::uint8_t> ConnectionChoices::take(const Endpoint& source,
                                                    std::uint64_t connection) {
    const auto found = choices_.find(key_of(source, connection));
    if (found == choices_.end()) {
        return std::nullopt;
    }
    const std::uint8_t bits = found->second;
    choices_.erase(found);
    return bits;
}

ConnectionSelector::ConnectionSelector(Arguments& arguments, std::uint64_t seed, bool by_source)
    : selector_(arguments, seed, by_source) {}

bool ConnectionSelector::takes(const Item& item) { return (choice(item) & kTaken) != 0; }

bool ConnectionSelector::takes_whole(const Item& item) { return (choice(item) & kLeft) == 0; }

// Where the selector treats all of a connection alike, it knows of the close too and nothing is
// remembered.
std::uint8_t ConnectionSelector::choice(const Item& item) {
    const bool remembers = !selector_.same_for_connection();
    if (item.is_close() && remembers) {
        if (const auto known = choices_.take(item.source, item.connection)) {
            return *known;
        }
    }
    const std::uint8_t bits = selector_.takes(item) ? kTaken : kLeft;
    if (!item.is_close() && remembers) {
        choices_.add(item.source, item.connection, bits);
    }
    return bits;
}

} // namespace reprise::mutator
