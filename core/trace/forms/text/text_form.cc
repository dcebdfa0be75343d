#include "core/trace/forms/text/text_form.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/hex.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "core/trace/forms/text/message_columns.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace reprise::trace {
namespace {

constexpr char kTab = '\t';

constexpr std::array kMessageCells{
    Column::kId,   Column::kFlags, Column::kOpcode, Column::kName,    Column::kClass,
    Column::kType, Column::kEdns,  Column::kDo,     Column::kVersion, Column::kOptions};

void append_endpoint(std::string& out, const Endpoint& endpoint) {
    append_address(out, endpoint.address);
    out += kTab;
    append_number(out, endpoint.port);
    out += kTab;
}

/// "-" for 0.
void append_positive(std::string& out, std::uint64_t value) {
    if (value == 0) {
        out += kNoCell;
    } else {
        append_number(out, value);
    }
    out += kTab;
}

void append_transport(std::string& out, const Query& query) {
    append_time(out, query.trace_time);
    out += kTab;
    append_endpoint(out, query.source);
    append_endpoint(out, query.destination);
    out += transport_name(query.transport);
    out += kTab;
    append_positive(out, query.connection);
}

/// The message's cells; true where they say all of it.
bool append_message_cells(std::string& out, Bytes message) {
    MessageColumns columns;
    const bool whole = read_columns(message, columns);
    for (const Column column : kMessageCells) {
        append_message_cell(out, column, columns);
        out += kTab;
    }
    return whole;
}

/// A # at the name's beginning is escaped: where the name is the first column, the row would be a
/// comment.
void append_name(std::string& out, Bytes name) {
    const size_t at = out.size();
    append_name_text(out, name);
    if (out[at] == '#') {
        out.replace(at, 1, "\\035");
    }
}

void append_close_cells(std::string& out) {
    out += kCloseCell;
    for (size_t i = 1; i < kMessageCells.size(); ++i) {
        out += kTab;
        out += kNoCell;
    }
    out += kTab;
}

} // namespace

void append_text_header(std::string& out) {
    fmt::format_to(std::back_inserter(out), "{} {}\n{}\n", kTextMagic, kTextVersion,
                   fmt::join(kColumnNames, "\t"));
}

void append_text_row(std::string& out, const Query& query) {
    append_transport(out, query);
    bool whole = true;
    if (query.is_close()) {
        append_close_cells(out);
    } else {
        whole = append_message_cells(out, query.message);
    }
    append_positive(out, query.rtt_class);
    append_positive(out, query.idle_class);
    if (whole) {
        out += kNoCell;
    } else {
        append_hex(out, query.message);
    }
    out += '\n';
}

void append_message_cell(std::string& out, Column column, const MessageColumns& message) {
    const bool of_question =
        column == Column::kName || column == Column::kClass || column == Column::kType;
    const bool of_edns = column >= Column::kEdns && column <= Column::kOptions;
    if ((of_question && message.name.empty()) || (of_edns && !message.edns)) {
        out += kNoCell;
        return;
    }
    switch (column) {
    case Column::kId:
        return append_number(out, message.id);
    case Column::kFlags:
        return append_flags(out, message.flags);
    case Column::kOpcode:
        return opcode_words().append(out, message.opcode);
    case Column::kName:
        return append_name(out, message.name);
    case Column::kClass:
        return class_words().append(out, message.dns_class);
    case Column::kType:
        return type_words().append(out, message.type);
    case Column::kEdns:
        return append_number(out, message.udp_size);
    case Column::kDo:
        return append_number(out, message.dnssec_ok ? 1 : 0);
    case Column::kVersion:
        return append_number(out, message.version);
    case Column::kOptions:
        return append_options(out, message.options);
    default:
        return; // no column of a message
    }
}

} // namespace reprise::trace
