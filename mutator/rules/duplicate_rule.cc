#include "core/address.hh"
#include "core/bytes.hh"
#include "mutator/batch.hh"
#include "mutator/rules/address_pool.hh"
#include "mutator/rules/rule.hh"
#include "mutator/rules/volume_rules.hh"

#include <cstddef>
#include <cstdint>

namespace reprise::mutator {
namespace {

/// Connections without a close would gather otherwise; those forgotten end by idleness.
constexpr size_t kMostOpen = 1UL << 20U;

} // namespace

std::uint64_t DuplicateRule::number_of(const IpAddress& source) {
    std::uint32_t& next = source.is_v4() ? sources4_ : sources6_;
    const auto [entry, fresh] = numbers_.try_emplace(source, next);
    if (fresh) {
        ++next;
        const AddressPool& pool = source.is_v4() ? settings_.pool4 : settings_.pool6;
        inside_prefix_ += pool.prefix().holds(source) ? 1U : 0U;
        shared_ += std::uint64_t{next} * (settings_.copies - 1) > pool.size() ? 1U : 0U;
    }
    return entry->second;
}

bool DuplicateRule::takes_close(const Item& close) {
    return settings_.all || copied_.erase(close.connection) != 0;
}

bool DuplicateRule::takes(const Item& item) {
    if (item.is_close()) {
        return takes_close(item);
    }
    if (!selector_.takes(item)) {
        return false;
    }
    if (!settings_.all && item.connection != 0) {
        if (copied_.size() >= kMostOpen) {
            copied_.clear();
        }
        copied_.insert(item.connection);
    }
    return true;
}

void DuplicateRule::copy(Item item, Batch& batch) {
    const AddressPool& pool = item.source.address.is_v4() ? settings_.pool4 : settings_.pool6;
    const Bytes message = item.message;
    const std::uint64_t number = number_of(item.source.address) * (settings_.copies - 1);
    for (std::uint32_t i = 0; i + 1 < settings_.copies; ++i) {
        item.source.address = pool.at(number + i);
        item.connection += item.connection == 0 ? 0U : 1U;
        item.message = batch.copy(message); // rules behind this one may edit each
        batch.items.push_back(item);
        added_ += item.is_close() ? 0U : 1U;
    }
}

void DuplicateRule::apply(Batch& batch) {
    incoming_.swap(batch.items);
    for (Item& item : incoming_) {
        const bool taken = takes(item);
        item.connection *= settings_.copies;
        batch.items.push_back(item);
        if (taken) {
            copy(item, batch);
        }
    }
    incoming_.clear();
}

RuleCounts DuplicateRule::counts() const {
    return {{"seen", selector_.seen()},
            {"matched", selector_.matched()},
            {"changed", 0},
            {"added", added_},
            {"inside_prefix", inside_prefix_},
            {"shared_addresses", shared_}};
}

} // namespace reprise::mutator
