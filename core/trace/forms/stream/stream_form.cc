// The stream form, version 1 (docs/formats.md): the records of the replay tree (record.hh) in
// frames with checksums, made for programs. Little-endian.
//
//   header  8 bytes "RPSTREAM" | u32 version = 1 | u32 0
//   frame   u32 size | u64 XXH64 of the payload | payload: a serialized wire::Block of 1 to 256
//   records end     u32 0    | u64 records in all frames
//
// A stream without its end was cut. It is read frame by frame, as they come; what is broken is
// named by its offset in the (decompressed) stream.

#include "core/dns/message.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/frame.hh"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::trace {

namespace {

constexpr std::string_view kStreamMagic = "RPSTREAM";
constexpr std::uint32_t kStreamVersion = 1;
constexpr size_t kStreamHeader = 16;
constexpr size_t kFrameHeader = 12;
constexpr std::uint32_t kMaxStreamFrame = 32U << 20U;

void append_frame_header(std::string& out, std::uint32_t size, std::uint64_t check) {
    append_little(out, size);
    append_little(out, check);
}

/// A frame ends at 256 records and where a batch ends. A query's sequence goes into its record as
/// it is.
class StreamEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override {
        out += kStreamMagic;
        append_little(out, kStreamVersion);
        append_little(out, std::uint32_t{0});
    }

    void encode(const Query& query, std::string& out) override {
        append_record(*block_.mutable_records(), query);
        block_.set_count(block_.count() + 1);
        if (block_.count() == kBlockRecords) {
            flush(out);
        }
    }

    void flush(std::string& out) override {
        if (block_.count() == 0) {
            return;
        }
        const size_t start = out.size();
        append_frame_header(out, static_cast<std::uint32_t>(block_.ByteSizeLong()), 0);
        block_.AppendToString(&out);
        const char* payload = out.data() + start + kFrameHeader;
        const std::uint64_t check = XXH64(payload, out.size() - start - kFrameHeader, 0);
        std::memcpy(out.data() + start + sizeof(std::uint32_t), &check, sizeof check);
        records_ += block_.count();
        block_.Clear(); // keeps the records' memory
    }

    void finish(std::string& out) override {
        flush(out);
        append_frame_header(out, 0, records_);
    }

private:
    wire::Block block_;
    std::uint64_t records_ = 0; ///< in frames that are out
};

/// What a record can hold beyond what a trace can: no destination, less than a header, or a close
/// of what was never open.
bool usable(const Query& query) {
    const bool whole = query.is_close() ? query.transport != Transport::kUdp
                                        : query.message.size() >= kDnsHeaderSize;
    return whole && query.destination.address.family != 0;
}

class StreamSource final : public QuerySource {
public:
    StreamSource(std::unique_ptr<ByteStream> stream, const std::string& path)
        : QuerySource("stream", std::move(stream)) {
        read_header(path);
    }

    [[nodiscard]] bool ready() const override { return left_ > 0; }

private:
    bool next_query(Query& query) override {
        while (left_ == 0) {
            if (ended_ || !end_frame() || !next_frame()) {
                return false;
            }
        }
        if (!records_.next(query)) {
            return fail_record("is cut or broken");
        }
        --left_;
        query.due = 0; // the replay's, of which a trace knows nothing
        query.source_id = 0;
        if (!usable(query)) {
            return fail_record("is neither a query nor the close of a connection");
        }
        if (!is_trace_time(query.time)) {
            return fail_record("has a time before 1900 or after 2149");
        }
        return query.connection <= kMaxConnection ||
               fail_record(
                   fmt::format("has connection {}; numbers are below 2^48", query.connection));
    }

    void read_header(const std::string& path) {
        std::array<std::uint8_t, kStreamHeader> header{};
        const bool whole = read(header);
        Cursor in(header);
        in.skip(kStreamMagic.size());
        const auto version = in.little<std::uint32_t>();
        if (!whole || version != kStreamVersion || in.little<std::uint32_t>() != 0) {
            throw TraceError(fmt::format(
                "{}: version {} of the stream form cannot be read; this program reads version {}",
                path, whole ? std::to_string(version) : "(cut)", kStreamVersion));
        }
    }

    /// Whether all of the frame's bytes were records.
    bool end_frame() {
        Query none;
        return !records_.next(none) && records_.ok()
                   ? true
                   : fail_record("is one more than its frame says");
    }

    bool next_frame() {
        frame_at_ = stream_->offset();
        std::array<std::uint8_t, kFrameHeader> header{};
        if (!read(header)) {
            return fail_cut();
        }
        Cursor in(header);
        const auto size = in.little<std::uint32_t>();
        const auto check = in.little<std::uint64_t>();
        return size == 0 ? end(check) : read_frame(size, check);
    }

    bool read_frame(std::uint32_t size, std::uint64_t check) {
        if (size > kMaxStreamFrame) {
            return fail_frame(fmt::format("has {} bytes, more than {}", size, kMaxStreamFrame));
        }
        payload_.resize(size);
        if (!read(payload_)) {
            return fail_cut();
        }
        if (XXH64(payload_.data(), size, 0) != check) {
            return fail_frame("has a wrong checksum");
        }
        if (!block_.ParseFromArray(payload_.data(), static_cast<int>(size)) ||
            block_.count() == 0 || block_.count() > kBlockRecords) {
            return fail_frame("is not a block of 1 to 256 records");
        }
        records_ = RecordReader(bytes_of(block_.records()));
        left_ = block_.count();
        return true;
    }

    /// The frame without a payload; nothing may follow it.
    bool end(std::uint64_t records) {
        ended_ = true;
        if (records != items_) {
            return fail_frame(fmt::format("counts {} records, but {} were read", records, items_));
        }
        std::array<std::uint8_t, 1> more{};
        if (read(more)) {
            return fail("byte " + std::to_string(stream_->offset() - 1), std::string(kBehindEnd));
        }
        return stream_->error().empty() ? false : fail_cut();
    }

    bool read(std::span<std::uint8_t> out) { return stream_->read(out) == out.size(); }

    bool fail_cut() {
        const std::string& why = stream_->error();
        return fail("byte " + std::to_string(stream_->offset()),
                    why.empty() ? "the stream is cut" : "the stream is cut or corrupt: " + why);
    }

    bool fail_frame(const std::string& what) {
        return fail("byte " + std::to_string(frame_at_), "the frame " + what);
    }

    bool fail_record(const std::string& what) {
        return fail("byte " + std::to_string(frame_at_),
                    fmt::format("the record at byte {} of the frame's records {}",
                                records_.offset(), what));
    }

    std::uint64_t frame_at_ = 0; ///< where the current frame begins
    std::vector<std::uint8_t> payload_;
    wire::Block block_;
    RecordReader records_{Bytes()}; ///< walks the block
    std::uint32_t left_ = 0;        ///< records of the block to be read
    bool ended_ = false;
};

bool begins_stream(Bytes head) { return text_of(head).starts_with(kStreamMagic); }

} // namespace

std::unique_ptr<QueryEncoder> make_stream_encoder() { return std::make_unique<StreamEncoder>(); }

const Form kStreamForm{.fits = begins_stream, .open = open_as<StreamSource>};

} // namespace reprise::trace
