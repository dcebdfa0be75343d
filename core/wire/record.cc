#include "core/wire/record.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace reprise {
namespace {

template <typename T> char* put(char* at, T value) {
    std::memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

char* put_bytes(char* at, const std::uint8_t* bytes, size_t count) {
    if (count > 0) { // a close has no message, and memcpy() must not see its null pointer
        std::memcpy(at, bytes, count);
    }
    return at + count;
}

IpAddress address_at(const std::uint8_t* at, std::uint8_t family) {
    return family == 4 ? IpAddress::v4(at) : family == 6 ? IpAddress::v6(at) : IpAddress{};
}

// Fields of the tail.
constexpr std::uint8_t kRttClass = 1;
constexpr std::uint8_t kIdleClass = 2;
constexpr size_t kClassSize = 2 + sizeof(std::uint16_t);

/// Space that a class takes in the tail; none is not written.
size_t class_size(std::uint16_t value) { return value == 0 ? 0 : kClassSize; }

char* put_class(char* at, std::uint8_t type, std::uint16_t value) {
    return value == 0 ? at : put(put(put(at, type), std::uint8_t{sizeof value}), value);
}

/// The tail of type-length-value fields must be well formed even where no type is known.
bool read_tail(Cursor& in, Query& query) {
    query.rtt_class = 0;
    query.idle_class = 0;
    while (in.ok() && in.left() > 0) {
        const std::uint8_t type = in.u8();
        Cursor value(in.take(in.u8()));
        if (type == kRttClass) {
            query.rtt_class = value.little<std::uint16_t>();
        } else if (type == kIdleClass) {
            query.idle_class = value.little<std::uint16_t>();
        }
        if (!value.ok()) {
            return false;
        }
    }
    return in.ok();
}

constexpr size_t kFixedSize = 4 + 4 + 8 + 8 + 8 + 8 + 4 + 2 + 2 + 2;

// Where the fields are that only this file asks for.
constexpr size_t kVersionAt = 4;
constexpr size_t kTransportAt = 5;
constexpr size_t kFamilyAt = 6;
constexpr size_t kConnectionAt = 32;
constexpr size_t kPortAt = 44;
constexpr size_t kAddressAt = 48;

size_t address_size(std::uint8_t family) { return IpAddress{.bytes = {}, .family = family}.size(); }

/// Where the message's size stands; the families must be within `bytes`.
size_t message_size_at(Bytes bytes) {
    return kAddressAt + address_size(bytes[kFamilyAt]) + address_size(bytes[kFamilyAt + 1]);
}

template <typename T> T load(Bytes bytes, size_t at) {
    T value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

/// What is wrong with the record at the beginning of `bytes`, as far as a RecordView looks.
RecordError judge(Bytes bytes) {
    if (bytes.size() < sizeof(std::uint32_t) ||
        bytes.size() - sizeof(std::uint32_t) < load<std::uint32_t>(bytes, 0)) {
        return RecordError::kTruncated;
    }
    const size_t size = sizeof(std::uint32_t) + load<std::uint32_t>(bytes, 0);
    if (size <= kVersionAt || bytes[kVersionAt] != kRecordVersion) {
        return RecordError::kVersion;
    }
    const bool known = size >= kFixedSize && (bytes[kFamilyAt] == 4 || bytes[kFamilyAt] == 6) &&
                       (address_size(bytes[kFamilyAt + 1]) > 0 || bytes[kFamilyAt + 1] == 0);
    const bool whole = known && size >= message_size_at(bytes) + sizeof(std::uint16_t);
    return whole ? RecordError::kNone : RecordError::kCorrupt;
}

} // namespace

void append_record(std::string& out, const Query& query) {
    if (query.message.size() > kMaxMessage) {
        throw Error(fmt::format("query {} has {} bytes, and DNS messages have at most {}; leave it "
                                "out of the trace",
                                query.sequence, query.message.size(), kMaxMessage));
    }
    const size_t source = query.source.address.size();
    const size_t destination = query.destination.address.size();
    const size_t size = kFixedSize + source + destination + query.message.size() +
                        class_size(query.rtt_class) + class_size(query.idle_class);
    const size_t start = out.size();
    out.resize(start + size);
    char* at = out.data() + start;
    at = put(at, static_cast<std::uint32_t>(size - 4));
    at = put(at, kRecordVersion);
    at = put(at, static_cast<std::uint8_t>(query.transport));
    at = put(at, query.source.address.family);
    at = put(at, query.destination.address.family);
    at = put(at, query.sequence);
    at = put(at, query.time);
    at = put(at, query.due);
    at = put(at, query.connection);
    at = put(at, query.source_id);
    at = put(at, query.source.port);
    at = put(at, query.destination.port);
    at = put_bytes(at, query.source.address.bytes.data(), source);
    at = put_bytes(at, query.destination.address.bytes.data(), destination);
    at = put(at, static_cast<std::uint16_t>(query.message.size()));
    at = put_bytes(at, query.message.data(), query.message.size());
    at = put_class(at, kRttClass, query.rtt_class);
    put_class(at, kIdleClass, query.idle_class);
}

IpAddress RecordView::source() const {
    return address_at(bytes_.data() + kAddressAt, bytes_[kFamilyAt]);
}

bool RecordReader::next(RecordView& record) {
    if (error_ != RecordError::kNone || next_ == block_.size()) {
        return false;
    }
    offset_ = next_;
    const Bytes rest = block_.subspan(offset_);
    error_ = judge(rest);
    if (error_ != RecordError::kNone) {
        return false;
    }
    record = RecordView(rest.first(sizeof(std::uint32_t) + load<std::uint32_t>(rest, 0)),
                        message_size_at(rest));
    next_ += record.bytes().size();
    return true;
}

bool RecordReader::next(Query& query) {
    RecordView record;
    if (!next(record)) {
        return false;
    }
    const Bytes bytes = record.bytes();
    const size_t destination = kAddressAt + address_size(bytes[kFamilyAt]);
    query.sequence = record.sequence();
    query.time = record.trace_time();
    query.due = record.due();
    query.source = {.address = record.source(), .port = load<std::uint16_t>(bytes, kPortAt)};
    query.destination = {.address = address_at(bytes.data() + destination, bytes[kFamilyAt + 1]),
                         .port = load<std::uint16_t>(bytes, kPortAt + 2)};
    query.source_id = record.source_id();
    query.connection = load<std::uint64_t>(bytes, kConnectionAt);
    query.transport = static_cast<Transport>(bytes[kTransportAt]);
    Cursor in(bytes.subspan(record.message_size_at_));
    query.message = in.take(in.little<std::uint16_t>());
    const bool good = query.transport <= Transport::kStatelessTcp && read_tail(in, query);
    error_ = good ? RecordError::kNone : RecordError::kCorrupt;
    return good;
}

} // namespace reprise
