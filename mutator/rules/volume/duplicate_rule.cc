#include "core/base/address.hh"
#include "core/base/error.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/source/address_pool.hh"
#include "mutator/rules/volume/volume_rules.hh"

#include <cstdint>

namespace reprise::mutator {
namespace {

/// A copy's number must fit 63 bits.
constexpr std::uint64_t kMostConnection = (std::uint64_t{1} << 63U) - 1;

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
    return settings_.all || copied_.take(close.source, close.connection).has_value();
}

bool DuplicateRule::takes(const Item& item) {
    if (item.is_close()) {
        return takes_close(item);
    }
    if (!selector_.takes(item)) {
        return false;
    }
    if (!settings_.all) {
        copied_.add(item.source, item.connection, 1);
    }
    return true;
}

void DuplicateRule::begin(Item& item, Batch& batch) {
    wanted_ = takes(item) ? settings_.copies : 1;
    if (wanted_ > 1) {
        first_copy_ = number_of(item.source.address) * (settings_.copies - 1);
    }
    if (item.connection > kMostConnection / settings_.copies) {
        throw Error("rule duplicate: the trace's connections have too large numbers for so many "
                    "copies; give fewer copies=");
    }
    item.connection *= settings_.copies;
    pass(item, batch);
    done_ = 1;
}

/// The next one.
void DuplicateRule::copy(Item item, Batch& batch) {
    const AddressPool& pool = item.source.address.is_v4() ? settings_.pool4 : settings_.pool6;
    item.source.address = pool.at(first_copy_ + done_ - 1);
    item.connection += item.connection == 0 ? 0U : done_;
    item.message = batch.copy(item.message); // rules behind this one may edit each
    put(item, batch);
    added_ += item.is_close() ? 0U : 1U;
    ++done_;
}

bool DuplicateRule::work(Item& item, Batch& batch) {
    if (full(batch)) {
        return false;
    }
    if (done_ == 0) {
        begin(item, batch);
    }
    while (done_ < wanted_) {
        if (full(batch)) {
            return false;
        }
        copy(item, batch);
    }
    done_ = 0;
    return true;
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
