#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/tally.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprise::trace {
namespace {

constexpr size_t kPrefix = 2;
/// Limits of one stream; a hole is given up beyond them.
constexpr size_t kMaxHeldBytes = 1UL << 20U;
constexpr size_t kMaxHeldSegments = 1'024;
/// No TCP window of a DNS connection is larger.
constexpr std::int32_t kMaxJump = 16 << 20;
/// A buffer that grew beyond this is given back when it is empty.
constexpr size_t kKeepCapacity = 4'096;

size_t message_size(Bytes pending) { return load16(pending.data()); }

// Finding the beginning of a DNS message in the middle of a stream.

enum class Plausible : std::uint8_t { kNo, kYes, kNeedMore };

bool plausible_flags(const DnsHeader& header) {
    const std::uint8_t opcode = header.opcode();
    const bool known_opcode = opcode <= 2 || opcode == 4 || opcode == 5;
    const bool reserved_bit = (header.flags & 0x0040U) != 0;
    return known_opcode && !reserved_bit && (header.is_response() || header.rcode() == 0);
}

/// Counts of real messages: one question, except that the later messages of a zone transfer may
/// have none.
bool plausible_counts(const DnsHeader& header, size_t size) {
    // Every record takes at least 11 bytes.
    const size_t records = size_t{header.answers} + header.authorities + header.additionals;
    if (header.questions > 1 || records * 11 > size - kDnsHeaderSize) {
        return false;
    }
    if (header.is_response()) {
        return header.questions == 1 || header.answers > 0;
    }
    return header.questions == 1 && (header.opcode() == 5 || header.answers <= 1) &&
           header.additionals <= 4;
}

bool plausible_class(std::uint16_t dns_class) {
    return dns_class == 1 || dns_class == 3 || dns_class == 4 || dns_class >= 254;
}

/// Name, type and class; compression only where `pointers` (a record's owner).
bool plausible_owner(Cursor& in, bool pointers) {
    size_t size = 0;
    for (std::uint8_t length = in.u8(); length != 0 && in.ok(); length = in.u8()) {
        size += length + 1U;
        if (length >= 0xc0 && pointers) {
            in.skip(1);
            break;
        }
        if (length > 63 || size > 254) {
            return false;
        }
        in.skip(length);
    }
    const std::uint16_t type = in.u16be();
    const std::uint16_t dns_class = in.u16be();
    return !in.ok() || (type != 0 && plausible_class(dns_class));
}

/// Whether `stream` begins with a length prefix (RFC 1035 section 4.2.2) and a DNS message:
/// possible flags and counts, and a well-formed first question or record. Strict enough that random
/// bytes pass about once in 10^9; real messages that are odd in these fields are only missed where
/// a stream's beginning was not captured.
Plausible begins_message(Bytes stream) {
    Cursor prefix(stream);
    const size_t size = prefix.u16be();
    if (!prefix.ok()) {
        return Plausible::kNeedMore;
    }
    if (size < kDnsHeaderSize + 5) {
        return Plausible::kNo;
    }
    const Bytes message = prefix.take(std::min(size, prefix.left()));
    const auto header = parse_header(message);
    if (!header) {
        return Plausible::kNeedMore;
    }
    if (!plausible_flags(*header) || !plausible_counts(*header, size)) {
        return Plausible::kNo;
    }
    Cursor in(message);
    in.skip(kDnsHeaderSize);
    if (!plausible_owner(in, header->questions == 0)) {
        return Plausible::kNo;
    }
    if (in.ok()) {
        return Plausible::kYes;
    }
    return message.size() < size ? Plausible::kNeedMore : Plausible::kNo;
}

} // namespace

bool HeldSegments::add(std::uint32_t next, std::uint32_t sequence, Bytes data, Nanoseconds time) {
    const auto at =
        std::ranges::lower_bound(segments_, ahead(sequence, next), {},
                                 [next](const Segment& one) { return ahead(one.sequence, next); });
    if (at != segments_.end() && at->sequence == sequence && at->data.size() >= data.size()) {
        return false;
    }
    segments_.insert(at, {.sequence = sequence, .time = time, .data = {data.begin(), data.end()}});
    memory_ += data.size() + kCost;
    return true;
}

void Stream::begin() {
    if (used_ == 0) {
        return;
    }
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    if (buffer_.empty() && buffer_.capacity() > kKeepCapacity) {
        buffer_ = {};
    }
}

void Stream::start(std::uint32_t sequence) {
    if (!started_) {
        started_ = true;
        synchronized_ = true;
        next_ = first_ = sequence;
    }
}

bool Stream::foreign(std::uint32_t sequence) const {
    return started_ && (ahead(sequence, next_) > kMaxJump || ahead(sequence, next_) < -kMaxJump);
}

void Stream::add(std::uint32_t sequence, Bytes data, Nanoseconds time, Output& out) {
    if (data.empty()) {
        return;
    }
    if (!started_) {
        started_ = true;
        next_ = first_ = sequence;
    }
    if (ahead(sequence, next_) > 0) {
        const bool kept = held_.add(next_, sequence, data, time);
        out.tally->add(kept ? Count::kTcpOutOfOrder : Count::kTcpRetransmission);
        if (held_.memory() > kMaxHeldBytes || held_.segments().size() > kMaxHeldSegments) {
            skip_hole(out);
        }
        return;
    }
    const auto seen = static_cast<size_t>(-std::int64_t{ahead(sequence, next_)});
    if (seen >= data.size()) {
        out.tally->add(Count::kTcpRetransmission);
        return;
    }
    append(data.subspan(seen), time, out);
    release(time, out);
}

/// Appends held segments that are due. A message they complete was completed at `now`, or when the
/// segment itself came.
void Stream::release(Nanoseconds now, Output& out) {
    held_.release([&](const HeldSegments::Segment& held) {
        const std::int32_t hole = ahead(held.sequence, next_);
        const auto seen = static_cast<size_t>(-std::int64_t{hole});
        if (hole <= 0 && seen < held.data.size()) {
            append(Bytes(held.data).subspan(seen), std::max(now, held.time), out);
        }
        return hole <= 0;
    });
}

void Stream::append(Bytes data, Nanoseconds time, Output& out) {
    next_ += static_cast<std::uint32_t>(data.size());
    const size_t discarded = std::min(discard_, data.size());
    discard_ -= discarded;
    buffer_.insert(buffer_.end(), data.begin() + static_cast<std::ptrdiff_t>(discarded),
                   data.end());
    scan(time, out);
}

void Stream::scan(Nanoseconds time, Output& out) {
    if (!synchronized_ && !search(out)) {
        return;
    }
    while (pending().size() >= kPrefix) {
        const size_t size = message_size(pending());
        if (pending().size() - kPrefix < size) {
            return;
        }
        if (size >= kDnsHeaderSize) {
            out.found.push_back(
                {.stream = this, .offset = used_ + kPrefix, .size = size, .time = time});
        } else {
            out.tally->add(size == 0 ? Count::kTcpEmptyMessage : Count::kShortMessage);
        }
        used_ += kPrefix + size;
    }
}

/// Moves used_ to the next place that looks like a message, or to where more bytes are needed to
/// tell.
bool Stream::search(Output& out) {
    const size_t from = used_;
    Plausible verdict = Plausible::kNo;
    while (used_ < buffer_.size() && verdict == Plausible::kNo) {
        verdict = begins_message(pending());
        used_ += verdict == Plausible::kNo ? 1 : 0;
    }
    out.tally->add(Count::kTcpUnsynchronized, used_ - from);
    synchronized_ = verdict == Plausible::kYes;
    return synchronized_;
}

/// Bytes still to come of the message that began, or 0 where that is not known.
size_t Stream::missing() const {
    if (discard_ > 0) {
        return discard_;
    }
    if (!synchronized_ || pending().size() < kPrefix) {
        return 0;
    }
    return kPrefix + message_size(pending()) - pending().size();
}

void Stream::skip_hole(Output& out) {
    const std::uint32_t sequence = held_.segments().front().sequence;
    const std::uint32_t lost = sequence - next_;
    const size_t need = missing();
    out.tally->add(Count::kTcpGap);
    if (synchronized_ && !pending().empty()) {
        out.tally->add(Count::kTcpGapMessage);
    }
    used_ = buffer_.size();
    synchronized_ = need >= lost;
    discard_ = synchronized_ ? need - lost : 0;
    next_ = sequence;
    release(std::numeric_limits<Nanoseconds>::min(), out);
}

void Stream::skip_holes(Output& out) {
    while (waiting()) {
        skip_hole(out);
    }
}

void Stream::finish(Output& out) {
    skip_holes(out);
    if (synchronized_ && !pending().empty()) {
        out.tally->add(Count::kTcpGapMessage);
    }
    used_ = buffer_.size();
}

} // namespace reprise::trace
