#pragma once
#include "core/base/bytes.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::trace {

/// Decompresses gzip (RFC 1952), one member after the other. Our own loop around zlib, because
/// libarchive gives up the last 64 KiB before a cut and takes what follows a member and is none for
/// the end.
class Gunzip {
public:
    Gunzip();
    ~Gunzip();
    Gunzip(const Gunzip&) = delete;
    Gunzip& operator=(const Gunzip&) = delete;

    /// Whether `head` begins a member.
    static bool fits(Bytes head) {
        return head.size() >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8;
    }

    /// Takes bytes off the front of `in` and yields what they make, good until the next call.
    /// Empty where all was taken, and on an error.
    Bytes next(Bytes& in);

    /// There is no more: an error inside a member.
    void finish();

    /// Empty while nothing went wrong.
    [[nodiscard]] const std::string& error() const { return error_; }

private:
    struct Inflater;

    bool begin_member(Bytes in);
    void judge(int result);

    std::unique_ptr<Inflater> inflater_;
    std::vector<std::uint8_t> out_;
    bool inside_ = false;       ///< of a member
    std::uint64_t members_ = 0; ///< whole ones
    std::string error_;
};

} // namespace reprise::trace
