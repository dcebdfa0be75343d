#pragma once
#include "core/base/address.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::mutator {

/// Numbers sources from 0 in order of appearance. Memory: at most 96 bytes a source.
class SourceNumbers {
public:
    /// Numbers at most `most` sources; below 2^31.
    explicit SourceNumbers(size_t most) : most_(most), slots_(kFirst) {}

    /// The source's number; nothing for a new one where `most` are known.
    std::optional<std::uint32_t> number_of(const IpAddress& address);

    [[nodiscard]] size_t size() const { return size_; }

private:
    struct Slot {
        IpAddress address; ///< of family 0: free
        std::uint32_t number = 0;
    };

    static constexpr size_t kFirst = 1024;

    Slot& find(const IpAddress& address);
    void grow();

    size_t most_;
    size_t size_ = 0;
    std::vector<Slot> slots_; ///< open addressing, a power of two, at most half full
};

} // namespace reprise::mutator
