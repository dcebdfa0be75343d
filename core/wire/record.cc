#include "core/wire/record.hh"

#include "core/base/error.hh"
#include "core/dns/message.hh"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace reprise {
namespace {

template <typename T> char* put(char* at, const T& value) {
    std::memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

char* put_bytes(char* at, const std::uint8_t* bytes, size_t count) {
    if (count > 0) { // a close has no message, and memcpy() must not see its null pointer
        std::memcpy(at, bytes, count);
    }
    return at + count;
}

/// Written where it is to be: the copy of one just made would wait for its bytes.
void read_address(const std::uint8_t* at, std::uint8_t family, IpAddress& address) {
    address.bytes = {};
    address.family = family;
    if (family == 4) {
        std::memcpy(address.bytes.data(), at, 4);
    } else if (family == 6) {
        std::memcpy(address.bytes.data(), at, address.bytes.size());
    }
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

size_t address_size(std::uint8_t family) { return IpAddress{.bytes = {}, .family = family}.size(); }

/// Where the message's size stands.
size_t message_size_at(const RecordHead& head) {
    return sizeof head + address_size(head.source_family) + address_size(head.destination_family);
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
    const size_t size = sizeof(RecordHead) + source + destination + sizeof(std::uint16_t) +
                        query.message.size() + class_size(query.rtt_class) +
                        class_size(query.idle_class);
    const RecordHead head{.size = static_cast<std::uint32_t>(size - sizeof head.size),
                          .version = kRecordVersion,
                          .transport = static_cast<std::uint8_t>(query.transport),
                          .source_family = query.source.address.family,
                          .destination_family = query.destination.address.family,
                          .sequence = query.sequence,
                          .trace_time = query.time,
                          .due = query.due,
                          .connection = query.connection,
                          .source_id = query.source_id,
                          .source_port = query.source.port,
                          .destination_port = query.destination.port};
    const size_t start = out.size();
    out.resize(start + size);
    char* at = put(out.data() + start, head);
    at = put_bytes(at, query.source.address.bytes.data(), source);
    at = put_bytes(at, query.destination.address.bytes.data(), destination);
    at = put(at, static_cast<std::uint16_t>(query.message.size()));
    at = put_bytes(at, query.message.data(), query.message.size());
    at = put_class(at, kRttClass, query.rtt_class);
    put_class(at, kIdleClass, query.idle_class);
}

IpAddress RecordView::source() const {
    IpAddress source;
    read_address(bytes_.data() + sizeof(RecordHead), head().source_family, source);
    return source;
}

bool RecordReader::next(RecordView& record) {
    if (!ok_ || next_ == block_.size()) {
        return false;
    }
    offset_ = next_;
    const Bytes rest = block_.subspan(offset_);
    ok_ = rest.size() >= sizeof(RecordHead);
    if (!ok_) {
        return false;
    }
    const auto& head = *reinterpret_cast<const RecordHead*>(rest.data());
    const size_t size = sizeof head.size + head.size;
    const size_t message_size = message_size_at(head);
    ok_ = head.version == kRecordVersion && address_size(head.source_family) > 0 &&
          (head.destination_family == 0 || address_size(head.destination_family) > 0) &&
          size >= message_size + sizeof(std::uint16_t) && size <= rest.size();
    if (ok_) {
        record = RecordView(rest.first(size), message_size);
        next_ += size;
    }
    return ok_;
}

bool RecordReader::next(Query& query) {
    RecordView record;
    if (!next(record)) {
        return false;
    }
    const RecordHead& head = record.head();
    const std::uint8_t* const source = record.bytes().data() + sizeof head;
    query.sequence = head.sequence;
    query.time = head.trace_time;
    query.due = head.due;
    read_address(source, head.source_family, query.source.address);
    query.source.port = head.source_port;
    read_address(source + query.source.address.size(), head.destination_family,
                 query.destination.address);
    query.destination.port = head.destination_port;
    query.source_id = head.source_id;
    query.connection = head.connection;
    query.transport = static_cast<Transport>(head.transport);
    Cursor in(record.bytes().subspan(record.message_size_at_));
    query.message = in.take(in.little<std::uint16_t>());
    ok_ = query.transport <= Transport::kStatelessTcp && read_tail(in, query);
    return ok_;
}

} // namespace reprise
