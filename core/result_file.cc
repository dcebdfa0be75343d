#include "core/result_file.hh"

#include "core/bytes.hh"
#include "core/error.hh"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise {
namespace {

constexpr std::uint32_t kSchema = 1;
constexpr size_t kBufferSize = 256UL << 10U;
constexpr size_t kHeaderFixed = 24;

struct Field {
    std::string_view name;
    std::string_view type;
    size_t offset;
};

constexpr std::array kFields{
    Field{"seq", "<u8", offsetof(RqRecord, sequence)},
    Field{"trace_ns", "<i8", offsetof(RqRecord, trace_time)},
    Field{"due_ns", "<i8", offsetof(RqRecord, due)},
    Field{"send_ns", "<i8", offsetof(RqRecord, send)},
    Field{"recv_ns", "<i8", offsetof(RqRecord, receive)},
    Field{"latency_ns", "<i8", offsetof(RqRecord, latency)},
    Field{"connect_ns", "<i8", offsetof(RqRecord, connect)},
    Field{"source", "<u4", offsetof(RqRecord, source)},
    Field{"connection", "<u4", offsetof(RqRecord, connection)},
    Field{"reply_size", "<u4", offsetof(RqRecord, reply_size)},
    Field{"rcode", "<u2", offsetof(RqRecord, rcode)},
    Field{"flags", "<u2", offsetof(RqRecord, flags)},
    Field{"marks", "<u2", offsetof(RqRecord, marks)},
    Field{"status", "|u1", offsetof(RqRecord, status)},
    Field{"transport", "|u1", offsetof(RqRecord, transport)},
    Field{"query_size", "<u2", offsetof(RqRecord, query_size)},
    Field{"reason", "|u1", offsetof(RqRecord, reason)},
    Field{"retries", "|u1", offsetof(RqRecord, retries)},
};

std::string header_json(const RqHeader& header) {
    std::string fields;
    for (const Field& field : kFields) {
        fmt::format_to(std::back_inserter(fields),
                       R"({}{{"name": "{}", "type": "{}", "offset": {}}})",
                       fields.empty() ? "" : ", ", field.name, field.type, field.offset);
    }
    return fmt::format(
        R"({{"fields": [{}], "run": {}, "host": {}, "querier": {}, "start_mono_ns": {}, )"
        R"("start_real_ns": {}, "trace_first_ns": {}}})",
        fields, json_string(header.run), json_string(header.host), header.querier,
        header.start_mono, header.start_real, header.trace_first);
}

void append_text(std::vector<std::uint8_t>& out, std::string_view text) {
    out.insert(out.end(), text.begin(), text.end());
}

void pad_to_eight(std::vector<std::uint8_t>& out) { out.resize((out.size() + 7) / 8 * 8); }

void write_all(int fd, Bytes data, const std::string& path) {
    while (!data.empty()) {
        const ssize_t written = ::write(fd, data.data(), data.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            throw SystemError("write " + path);
        }
        data = data.subspan(static_cast<size_t>(written));
    }
}

} // namespace

struct RecordFile::Digest {
    XXH3_state_t* state = XXH3_createState();

    Digest() { XXH3_64bits_reset(state); }

    ~Digest() { XXH3_freeState(state); }

    Digest(const Digest&) = delete;
    Digest& operator=(const Digest&) = delete;
};

RecordFile::RecordFile(std::string path, std::string_view header_magic,
                       std::string_view footer_magic)
    : path_(std::move(path)), header_magic_(header_magic), footer_magic_(footer_magic),
      file_(check(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644),
                  ("create " + path_).c_str())),
      digest_(std::make_unique<Digest>()) {
    buffer_.reserve(kBufferSize);
}

RecordFile::~RecordFile() = default;

void RecordFile::write_header(std::uint32_t record_size, std::string_view json) {
    append_text(buffer_, header_magic_);
    append_little(buffer_, kSchema);
    const size_t whole = (kHeaderFixed + json.size() + 7) / 8 * 8;
    append_little(buffer_, static_cast<std::uint32_t>(whole));
    append_little(buffer_, record_size);
    append_little(buffer_, static_cast<std::uint32_t>(json.size()));
    append_text(buffer_, json);
    pad_to_eight(buffer_);
    flush();
}

void RecordFile::append(Bytes record) {
    if (buffer_.size() + record.size() > kBufferSize) {
        flush();
    }
    XXH3_64bits_update(digest_->state, record.data(), record.size());
    buffer_.insert(buffer_.end(), record.begin(), record.end());
    ++count_;
}

void RecordFile::flush() {
    write_all(file_.get(), buffer_, path_);
    buffer_.clear();
}

void RecordFile::finish(std::string_view json) {
    append_text(buffer_, json);
    append_little(buffer_, count_);
    append_little(buffer_, std::uint64_t{XXH3_64bits_digest(digest_->state)});
    append_little(buffer_, static_cast<std::uint32_t>(json.size()));
    append_little(buffer_, std::uint32_t{0});
    append_text(buffer_, footer_magic_);
    flush();
    file_.reset();
}

RqWriter::RqWriter(const std::string& path, const RqHeader& header)
    : file_(path, "RPRQHDR1", "RPRQEND1") {
    file_.write_header(sizeof(RqRecord), header_json(header));
}

void RqWriter::append(const RqRecord& record) {
    file_.append({reinterpret_cast<const std::uint8_t*>(&record), sizeof record});
}

RaWriter::RaWriter(const std::string& path, std::string_view json)
    : file_(path, "RPRAHDR1", "RPRAEND1") {
    file_.write_header(0, json);
}

void RaWriter::append(const Answer& answer) {
    scratch_.clear();
    append_little(scratch_, answer.sequence);
    append_little(scratch_, answer.time);
    append_little(scratch_, answer.source);
    append_little(scratch_, static_cast<std::uint32_t>(answer.query.size()));
    append_little(scratch_, static_cast<std::uint32_t>(answer.reply.size()));
    append_little(scratch_, std::uint32_t{0});
    scratch_.insert(scratch_.end(), answer.query.begin(), answer.query.end());
    scratch_.insert(scratch_.end(), answer.reply.begin(), answer.reply.end());
    pad_to_eight(scratch_);
    file_.append(scratch_);
}

std::string json_string(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    return out + '"';
}

} // namespace reprise
