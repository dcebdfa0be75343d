#include "mutator/rules/engine/selector.hh"

#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/filter.hh"
#include "mutator/rules/engine/source_key.hh"

#include <cmath>
#include <cstdint>
#include <limits>

namespace reprise::mutator {
namespace {

/// Uses of a rule's seed here, apart from the rule's own.
constexpr std::uint64_t kSourceUse = 0x5e1ec7;
constexpr std::uint64_t kQueryUse = 0x5e1ec8;

} // namespace

Selector::Selector(Arguments& arguments, std::uint64_t seed, bool by_source)
    : filter_(Filter::make(arguments)), key_(mixed_seed(seed, kSourceUse)),
      random_(mixed_seed(seed, kQueryUse)) {
    share_ = arguments.get_number("share", 0, 100).value_or(100) / 100;
    const auto by = arguments.get_word("by", {"query", "source"});
    by_source_ = by ? *by == "source" : by_source;
    const double limit = std::ldexp(share_, 64);
    limit_ = limit < 0x1p64 ? static_cast<std::uint64_t>(limit)
                            : std::numeric_limits<std::uint64_t>::max();
    inverted_ = share_ > 0.5;
    stretch_ = 1 / (inverted_ ? 1 - share_ : share_);
    draw_next();
}

Selector::Selector(Selector&&) noexcept = default;
Selector& Selector::operator=(Selector&&) noexcept = default;
Selector::~Selector() = default;

bool Selector::takes(const Item& item) {
    const bool close = item.is_close();
    seen_ += close ? 0 : 1;
    if (!passes(item) || !in_share(item)) {
        return false;
    }
    matched_ += close ? 0 : 1;
    return true;
}

bool Selector::same_for_connection() const {
    const bool whole = share_ >= 1 || share_ <= 0 || by_source_;
    return whole && (!filter_ || filter_->same_for_connection());
}

bool Selector::passes(const Item& item) {
    if (!filter_) {
        return true;
    }
    if (!begun_) {
        begun_ = true;
        filter_->begin(item.time);
    }
    return filter_->matches(item);
}

bool Selector::in_share(const Item& item) {
    if (share_ >= 1 || share_ <= 0) {
        return share_ >= 1;
    }
    if (by_source_) {
        return source_key(item.source.address, key_) < limit_;
    }
    return !item.is_close() && next_in_share();
}

// Two places may fall on one query where stretches are no whole numbers; the second then moves to
// the query behind it, which stays within the stretch's share.
bool Selector::next_in_share() {
    const bool rarer = next_ < static_cast<double>(passed_ + 1);
    ++passed_;
    if (rarer) {
        ++drawn_;
        draw_next();
    }
    return rarer != inverted_;
}

void Selector::draw_next() { next_ = (static_cast<double>(drawn_) + random_.unit()) * stretch_; }

} // namespace reprise::mutator
