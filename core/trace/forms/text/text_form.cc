#include "core/trace/forms/text/text_form.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/hex.hh"
#include "core/base/nearest.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/text/message_columns.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

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

namespace {

class TextEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override { append_text_header(out); }

    void encode(const Query& query, std::string& out) override {
        check_message_size(query);
        append_text_row(out, query);
    }

    void finish(std::string& /*out*/) override {}
};

} // namespace

std::unique_ptr<QueryEncoder> make_text_encoder() { return std::make_unique<TextEncoder>(); }

namespace {

std::string wrong(std::string_view cell, std::string_view expected, std::string_view near = {}) {
    return fmt::format("{} is not {}{}", quoted_cell(cell), expected,
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

std::string explain_name(std::string_view cell) {
    WireName name;
    return fmt::format("{} {}", quoted_cell(cell), name_error_text(parse_name(cell, name)));
}

std::string explain_transport(std::string_view cell) {
    constexpr std::array<std::string_view, 6> kTransportNames{"udp",  "tcp",   "tls",
                                                              "quic", "https", "stateless-tcp"};
    return wrong(cell, "a transport (udp, tcp, tls, quic, https, stateless-tcp)",
                 nearest_word(cell, kTransportNames));
}

} // namespace

std::string explain_cell(Column column, std::string_view cell) {
    switch (column) {
    case Column::kTime:
        return wrong(cell, "a time in seconds since the epoch, such as 1475762100.123456789");
    case Column::kSource:
    case Column::kDestination:
        return wrong(cell, "an address, such as 192.0.2.1 or 2001:db8::1");
    case Column::kTransport:
        return explain_transport(cell);
    case Column::kConnection:
        return wrong(cell, "the number of a connection, below 2^48, or -");
    case Column::kId:
        return wrong(cell, "a number from 0 to 65535, nor the word close");
    case Column::kFlags:
        return wrong(cell, "a list of flags, such as rd,ad (aa tc rd ra z ad cd), or -");
    case Column::kOpcode:
        return wrong(cell, "an opcode (QUERY, NOTIFY, ... or 0 to 15)",
                     opcode_words().nearest(cell));
    case Column::kName:
        return explain_name(cell);
    case Column::kClass:
        return wrong(cell, "a class (IN, CH, ... or CLASS1)", class_words().nearest(cell));
    case Column::kType:
        return wrong(cell, "a type", type_words().nearest(cell));
    case Column::kDo:
        return wrong(cell, "1, 0 or -");
    case Column::kVersion:
        return wrong(cell, "a number from 0 to 255, or -");
    case Column::kOptions:
        return wrong(cell, "a list of EDNS options CODE:HEX;CODE:HEX, such as NSID:, or -");
    case Column::kHex:
        return wrong(cell, "a message of 12 to 65535 bytes in hexadecimal, or -");
    case Column::kPort:
    case Column::kDport:
    case Column::kEdns:
    case Column::kRtt:
    case Column::kIdle:
        break;
    }
    return wrong(cell, "a number from 0 to 65535, or -");
}

} // namespace reprise::trace
