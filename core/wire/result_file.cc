#include "core/wire/result_file.hh"

#include "core/base/json.hh"
#include "core/base/output_file.hh"

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {
namespace {

// Records, here and on the wire, are written as they lie in memory.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kSchema = 1;
constexpr size_t kHeaderFixed = 24;
constexpr std::uint64_t kRoomForEnd = 64UL << 10U; ///< statistics and footer
constexpr std::uint64_t kRoomForQuestion = 128;    ///< of an answers file: usual are below 100

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
    Json fields = Json::array();
    for (const Field& field : kFields) {
        fields.push_back({{"name", field.name}, {"type", field.type}, {"offset", field.offset}});
    }
    return json_text({{"fields", std::move(fields)},
                      {"run", header.run},
                      {"host", header.host},
                      {"querier", header.querier},
                      {"start_mono_ns", header.start_mono},
                      {"start_real_ns", header.start_real},
                      {"trace_first_ns", header.trace_first}});
}

void pad_to_eight(auto& out) { out.resize((out.size() + 7) / 8 * 8); }

} // namespace

RecordFile::RecordFile(const std::string& path, std::string_view magic, std::size_t record_size,
                       std::string_view json)
    : magic_(magic), room_(record_size != 0 ? record_size : kRoomForQuestion),
      file_(path, AppendFile::Existing::kRefuse), digest_(XXH3_createState(), XXH3_freeState) {
    XXH3_64bits_reset(digest_.get());
    std::string head = magic_ + "HDR1";
    append_little(head, kSchema);
    const size_t whole = (kHeaderFixed + json.size() + 7) / 8 * 8;
    append_little(head, static_cast<std::uint32_t>(whole));
    append_little(head, static_cast<std::uint32_t>(record_size));
    append_little(head, static_cast<std::uint32_t>(json.size()));
    head += json;
    pad_to_eight(head);
    file_.append(head);
    file_.flush();
}

void RecordFile::append(Bytes record) {
    file_.append(record);
    XXH3_64bits_update(digest_.get(), record.data(), record.size());
    ++count_;
}

void RecordFile::reserve(std::uint64_t queries) { file_.reserve(queries * room_ + kRoomForEnd); }

void RecordFile::finish(std::string_view json) {
    std::string foot(json);
    append_little(foot, count_);
    append_little(foot, std::uint64_t{XXH3_64bits_digest(digest_.get())});
    append_little(foot, static_cast<std::uint32_t>(json.size()));
    append_little(foot, std::uint32_t{0});
    file_.append(foot + magic_ + "END1");
    file_.close();
}

RqWriter::RqWriter(const std::string& path, const RqHeader& header)
    : RecordFile(path, "RPRQ", sizeof(RqRecord), header_json(header)) {}

void RqWriter::append(const RqRecord& record) {
    RecordFile::append({reinterpret_cast<const std::uint8_t*>(&record), sizeof record});
}

RaWriter::RaWriter(const std::string& path, std::string_view json)
    : RecordFile(path, "RPRA", 0, json) {}

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
    RecordFile::append(scratch_);
}

} // namespace reprise
