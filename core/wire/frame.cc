#include "core/wire/frame.hh"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace reprise {

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

} // namespace reprise
