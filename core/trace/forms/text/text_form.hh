#pragma once
// Queries as text (docs/formats.md). The text form, version 1: two lines of header, then a row of
// tab-separated cells for each query, made for awk and spreadsheets. Exact: the columns stand for
// the message where they make the same bytes again, else the cell `hex` has the whole message and
// the others show what they can.
//
// LDplayer's fsdb and dnsperf's query files are read as dialects of it. Rows are yielded as they
// come. A bad row ends the reading: trouble() names its line and column, what was expected, and how
// many queries were good.

#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"

#include <memory>
#include <string>
#include <string_view>

namespace reprise::trace {

inline constexpr std::string_view kTextMagic = "#reprise-text";
inline constexpr unsigned kTextVersion = 1;

/// The first two lines.
void append_text_header(std::string& out);

/// A query or a close, with the line's end. The message must have at least 12 bytes.
void append_text_row(std::string& out, const Query& query);

/// Queries as rows of the text form.
std::unique_ptr<QueryEncoder> make_text_encoder();

} // namespace reprise::trace
