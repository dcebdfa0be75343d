#pragma once
#include <cstddef>

namespace reprise::querier {

/// How many sockets this process may still open: the limit of descriptors less a reserve for files,
/// timers and the parent.
class Descriptors {
public:
    static constexpr size_t kReserve = 64;

    explicit Descriptors(size_t limit) : left_(limit > kReserve ? limit - kReserve : 1) {}

    /// False when none is left.
    bool take() {
        if (left_ == 0) {
            return false;
        }
        --left_;
        return true;
    }

    void give_back() { ++left_; }

private:
    size_t left_;
};

} // namespace reprise::querier
