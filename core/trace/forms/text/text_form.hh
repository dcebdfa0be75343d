#pragma once
// The text form, version 1 (docs/formats.md): two lines of header, then a row of tab-separated
// cells for each query, made for awk and spreadsheets. Exact: the columns stand for the message
// where they make the same bytes again, else the cell `hex` has the whole message and the others
// show what they can.

#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/text/message_columns.hh"
#include "core/wire/query.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace reprise::trace {

enum class Column : std::uint8_t {
    kTime,
    kSource,
    kPort,
    kDestination,
    kDport,
    kTransport,
    kConnection,
    kId,
    kFlags,
    kOpcode,
    kName,
    kClass,
    kType,
    kEdns,
    kDo,
    kVersion,
    kOptions,
    kRtt,
    kIdle,
    kHex,
};

/// In the order of Column, in which they are written.
inline constexpr std::array<std::string_view, 20> kColumnNames{
    "time", "source",  "port",    "destination", "dport", "transport", "connection",
    "id",   "flags",   "opcode",  "name",        "class", "type",      "edns",
    "do",   "version", "options", "rtt",         "idle",  "hex"};

inline constexpr std::string_view kTextMagic = "#reprise-text";
inline constexpr unsigned kTextVersion = 1;
inline constexpr std::string_view kCloseCell = "close"; ///< in column id

/// The first two lines.
void append_text_header(std::string& out);

/// A query or a close, with the line's end. The message must have at least 12 bytes.
void append_text_row(std::string& out, const Query& query);

/// What column, one from kId to kOptions, says of a message.
void append_message_cell(std::string& out, Column column, const MessageColumns& message);

/// Queries as rows of the text form (text_form.hh).
std::unique_ptr<QueryEncoder> make_text_encoder();

/// Why `cell` cannot stand in `column`: what it should be, and the nearest word where there is one.
std::string explain_cell(Column column, std::string_view cell);

} // namespace reprise::trace
