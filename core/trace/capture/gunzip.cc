#include "core/trace/capture/gunzip.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <zconf.h>
#include <zlib.h>

namespace reprise::trace {
namespace {

constexpr size_t kOutput = 256UL << 10U;
constexpr int kGzipOnly = 15 + 16; // the largest window, and a gzip header before it

} // namespace

struct Gunzip::Inflater {
    Inflater() {
        if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
            throw Error("no memory to decompress gzip; free some");
        }
    }

    ~Inflater() { inflateEnd(&stream); }

    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    z_stream stream{};
};

Gunzip::Gunzip() : inflater_(std::make_unique<Inflater>()), out_(kOutput) {}

Gunzip::~Gunzip() = default;

bool Gunzip::begin_member(Bytes in) {
    constexpr std::uint8_t kMagic = 0x1f;
    if (in[0] != kMagic) {
        error_ = fmt::format("what follows member {} of the gzip data is not gzip", members_);
        return false;
    }
    inflateReset(&inflater_->stream);
    inside_ = true;
    return true;
}

void Gunzip::judge(int result) {
    if (result == Z_STREAM_END) {
        inside_ = false;
        ++members_;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
        const char* const told = inflater_->stream.msg;
        const char* const why = told != nullptr ? told : zError(result);
        error_ = fmt::format("member {} of the gzip data is damaged: {}", members_ + 1, why);
    }
}

Bytes Gunzip::next(Bytes& in) {
    z_stream& stream = inflater_->stream;
    while (!in.empty() && error_.empty() && (inside_ || begin_member(in))) {
        const size_t size = std::min<size_t>(in.size(), std::numeric_limits<uInt>::max());
        stream.next_in = const_cast<Bytef*>(in.data()); // only read
        stream.avail_in = static_cast<uInt>(size);
        stream.next_out = out_.data();
        stream.avail_out = static_cast<uInt>(out_.size());
        judge(inflate(&stream, Z_NO_FLUSH));
        in = in.subspan(size - stream.avail_in);
        if (const size_t made = out_.size() - stream.avail_out; made > 0) {
            return Bytes(out_).first(made);
        }
    }
    return {};
}

void Gunzip::finish() {
    if (inside_ && error_.empty()) {
        error_ = fmt::format("member {} of the gzip data is cut", members_ + 1);
    }
}

} // namespace reprise::trace
