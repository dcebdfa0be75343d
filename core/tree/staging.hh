#pragma once
// Records that wait for the start, in pieces, so that each is freed when it has been handed on:
// the first window may be hundreds of megabytes.

#include "core/base/bytes.hh"
#include "core/wire/frame.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace reprise::tree {

class Staging {
public:
    /// Adds whole records.
    void add(Bytes records) {
        if (pieces_.empty() || pieces_.back().size() + records.size() > kBlockBytes) {
            pieces_.emplace_back().reserve(std::max(records.size(), kBlockBytes));
        }
        pieces_.back().append(reinterpret_cast<const char*>(records.data()), records.size());
        bytes_ += records.size();
    }

    [[nodiscard]] size_t bytes() const { return bytes_; }

    /// Calls `use(Bytes)` for each piece, in order.
    template <typename Use> void look(const Use& use) const {
        for (const std::string& piece : pieces_) {
            use(bytes_of(piece));
        }
    }

    /// The same; each piece is freed behind its call.
    template <typename Use> void drain(const Use& use) {
        for (; !pieces_.empty(); pieces_.pop_front()) {
            use(bytes_of(pieces_.front()));
        }
        bytes_ = 0;
    }

private:
    std::deque<std::string> pieces_;
    size_t bytes_ = 0;
};

} // namespace reprise::tree
