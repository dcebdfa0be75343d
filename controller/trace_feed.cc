#include "controller/trace_feed.hh"

#include "controller/options.hh"
#include "core/dns_message.hh"
#include "core/error.hh"
#include "core/query.hh"
#include "core/trace/reader.hh"

#include <cstdint>
#include <string>
#include <utility>

namespace reprise::controller {
namespace {

constexpr std::uint8_t kOpcodeNotify = 4;
constexpr std::uint8_t kOpcodeUpdate = 5;

} // namespace

std::string skip_reason(const trace::Message& message, const Servers& servers, bool all_opcodes) {
    const auto header = parse_header(message.bytes);
    const std::uint8_t opcode = header ? header->opcode() : 0;
    if (!all_opcodes && (opcode == kOpcodeNotify || opcode == kOpcodeUpdate)) {
        return "opcode";
    }
    if (message.source.address.is_v4() && !servers.v4) {
        return "no_ipv4_server";
    }
    if (message.source.address.is_v6() && !servers.v6) {
        return "no_ipv6_server";
    }
    return "";
}

SourceTable::SourceTable(const std::string& path) : path_(path), file_(path) {
    file_ << "id,address\n";
    if (!file_) {
        throw SystemError("create " + path);
    }
}

std::uint32_t SourceTable::id_of(const IpAddress& address) {
    const auto [at, fresh] = ids_.try_emplace(address, static_cast<std::uint32_t>(ids_.size()));
    if (fresh) {
        file_ << at->second << ',' << address.text() << '\n';
    }
    return at->second;
}

void SourceTable::flush() {
    if (std::exchange(flushed_, ids_.size()) != ids_.size()) {
        file_.flush();
    }
    if (!file_) {
        throw SystemError("write " + path_);
    }
}

TraceFeed::TraceFeed(const Options& options, const Servers& servers)
    : reader_(options.trace, trace::ReaderOptions{.ports = options.ports}), servers_(servers),
      all_opcodes_(options.all_opcodes), sources_(options.results + "/sources.csv") {}

bool TraceFeed::next(Query& query) {
    trace::Message message;
    while (reader_.next(message)) {
        if (message.response) {
            ++responses_;
            continue;
        }
        query.sequence = read_++;
        const std::string reason = skip_reason(message, servers_, all_opcodes_);
        if (!reason.empty()) {
            ++skipped_[reason];
            ++skips_;
            continue;
        }
        query.trace_time = message.time;
        first_ = handed_any_ ? first_ : message.time;
        handed_any_ = true;
        query.due = message.time - first_;
        query.source = message.source;
        query.destination = message.destination;
        query.source_id = sources_.id_of(message.source.address);
        query.connection = message.connection;
        query.transport = message.transport;
        query.message = message.bytes;
        return true;
    }
    return false;
}

} // namespace reprise::controller
