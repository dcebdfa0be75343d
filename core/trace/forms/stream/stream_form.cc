#include "core/trace/forms/stream/stream_form.hh"

#include "core/base/bytes.hh"
#include "core/wire/frame.hh"
#include "core/wire/query.hh"
#include "core/wire/record.hh"
#include "core/wire/replay.pb.h"

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace reprise::trace {
namespace {

void append_frame_header(std::string& out, std::uint32_t size, std::uint64_t check) {
    append_raw(out, size);
    append_raw(out, check);
}

} // namespace

void StreamBuilder::begin(std::string& out) {
    out += kStreamMagic;
    append_raw(out, kStreamVersion);
    append_raw(out, std::uint32_t{0});
}

void StreamBuilder::add(const Query& query, std::string& out) {
    append_record(*block_.mutable_records(), query);
    block_.set_count(block_.count() + 1);
    if (block_.count() == kBlockRecords) {
        flush(out);
    }
}

void StreamBuilder::flush(std::string& out) {
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

void StreamBuilder::finish(std::string& out) {
    flush(out);
    append_frame_header(out, 0, records_);
}

} // namespace reprise::trace
