#include "core/wire/frame.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace reprise {
namespace {

// Tags of replay.proto: field number << 3 | wire type.
constexpr std::uint8_t kFrameBlock = 6U << 3U | 2U;
constexpr std::uint8_t kBlockCount = 1U << 3U;
constexpr std::uint8_t kBlockRecordBytes = 2U << 3U | 2U;

/// A tag and its number below 2^28, which always takes four bytes.
constexpr size_t kField = 1 + 4;
/// Size, then three of them.
constexpr size_t kHead = 4 + 3 * kField;

void put_field(char* at, std::uint8_t tag, size_t number) {
    at[0] = static_cast<char>(tag);
    for (unsigned i = 0; i < 3; ++i) {
        at[1 + i] = static_cast<char>((number >> 7 * i) | 0x80U);
    }
    at[4] = static_cast<char>((number >> 21U) & 0x7fU);
}

/// A number after its tag; an error where the tag is another or the number is over 28 bits.
size_t number_after(Cursor& in, std::uint8_t tag) {
    if (in.u8() != tag) {
        in.skip(in.left() + 1);
    }
    size_t number = 0;
    for (unsigned shift = 0; shift < 28; shift += 7) {
        const size_t byte = in.u8();
        number |= (byte & 0x7fU) << shift;
        if (byte < 0x80) {
            return number;
        }
    }
    in.skip(in.left() + 1);
    return 0;
}

} // namespace

wire::Frame frame_of(const Credit& credit) {
    wire::Frame frame;
    frame.mutable_credit()->set_queries(credit.records);
    frame.mutable_credit()->set_bytes(credit.bytes);
    return frame;
}

std::string encode_frame(const wire::Frame& frame) {
    const auto size = static_cast<std::uint32_t>(frame.ByteSizeLong());
    std::string out(sizeof size + size, '\0');
    std::memcpy(out.data(), &size, sizeof size);
    frame.SerializeWithCachedSizesToArray(
        reinterpret_cast<std::uint8_t*>(out.data() + sizeof size));
    return out;
}

void FrameReader::feed(Bytes data) {
    if (used_ > 0 && used_ >= buffer_.size() / 2) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
        used_ = 0;
    }
    buffer_.insert(buffer_.end(), data.begin(), data.end());
}

FrameReader::Result FrameReader::next(wire::Frame& frame) {
    const size_t available = buffer_.size() - used_;
    std::uint32_t size = 0;
    if (available < sizeof size) {
        return Result::kNeedMore;
    }
    std::memcpy(&size, buffer_.data() + used_, sizeof size);
    if (size > kMaxFrame) {
        return Result::kTooLarge;
    }
    if (available < sizeof size + size) {
        return Result::kNeedMore;
    }
    const bool good =
        frame.ParseFromArray(buffer_.data() + used_ + sizeof size, static_cast<int>(size));
    used_ += sizeof size + size;
    return good && frame.body_case() != wire::Frame::BODY_NOT_SET ? Result::kFrame
                                                                  : Result::kCorrupt;
}

void BlockBuilder::append(Bytes record) {
    if (count_ == 0) {
        bytes_.reserve(std::max(usual_, kHead + record.size()));
        bytes_.resize(kHead);
    }
    bytes_.append(reinterpret_cast<const char*>(record.data()), record.size());
    ++count_;
}

Outgoing BlockBuilder::take() {
    const size_t records = bytes_.size() - kHead;
    Outgoing out{.bytes = std::exchange(bytes_, {}),
                 .cost = {.records = std::exchange(count_, 0), .bytes = records}};
    const auto frame = static_cast<std::uint32_t>(out.bytes.size() - sizeof(std::uint32_t));
    char* at = out.bytes.data();
    std::memcpy(at, &frame, sizeof frame);
    put_field(at + sizeof frame, kFrameBlock, records + 2 * kField);
    put_field(at + sizeof frame + kField, kBlockCount, out.cost.records);
    put_field(at + sizeof frame + 2 * kField, kBlockRecordBytes, records);
    usual_ = out.bytes.size() + out.bytes.size() / 8;
    return out;
}

std::optional<Bytes> view_block(Bytes frame) {
    Cursor in(frame);
    const size_t block = number_after(in, kFrameBlock);
    if (!in.ok() || block != in.left()) {
        return std::nullopt;
    }
    number_after(in, kBlockCount);
    const size_t records = number_after(in, kBlockRecordBytes);
    if (!in.ok() || records != in.left()) {
        return std::nullopt;
    }
    return in.take(records);
}

} // namespace reprise
