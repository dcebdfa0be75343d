#pragma once
// What came lately, by hash: two generations, of which the older one is forgotten as a whole.

#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

namespace reprise {

/// Values by hash, for between `patience` and twice as long in the trace's time, and at most `most`
/// of them: beyond that the older half is forgotten. Memory: about 27 bytes each, and the value.
template <typename Value> class Recent {
public:
    explicit Recent(Nanoseconds patience, size_t most = std::numeric_limits<size_t>::max())
        : patience_(patience), most_(most) {}

    /// The trace has come to this time, perhaps by a step back of its clock.
    void advance(Nanoseconds now) {
        if (std::abs(now - since_) >= patience_ || young_.values.size() >= most_ / 2) {
            old_ = std::exchange(young_, {});
            since_ = now;
        }
    }

    /// The value that was added last, null where there is none. Good until the next add().
    Value* find(std::uint64_t hash) {
        for (Generation* const one : {&young_, &old_}) {
            if (const auto number = one->numbers.find(key(hash))) {
                return &one->values[*number];
            }
        }
        return nullptr;
    }

    /// The value of now, which is new where none was added lately.
    Value& add(std::uint64_t hash) {
        const auto [number, fresh] =
            young_.numbers.find_or_add(key(hash), static_cast<std::uint32_t>(young_.values.size()));
        if (fresh) {
            young_.values.emplace_back();
        }
        return young_.values[number];
    }

    [[nodiscard]] size_t size() const { return young_.values.size() + old_.values.size(); }

private:
    using Numbers = FlatIds<sizeof(std::uint64_t)>;

    struct Generation {
        Numbers numbers;
        std::vector<Value> values; ///< by number
    };

    static Numbers::Key key(std::uint64_t hash) { return std::bit_cast<Numbers::Key>(hash); }

    Nanoseconds patience_;
    size_t most_;
    Nanoseconds since_ = 0; ///< where `young_` began
    Generation young_;
    Generation old_; ///< from before
};

} // namespace reprise
