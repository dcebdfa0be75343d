#pragma once
// Cells of the text form to queries. Other forms of text use it too.

#include "core/dns/message.hh"
#include "core/trace/forms/text/message_columns.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/wire/query.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {

/// The cells of a row by Column; "-" where there is nothing.
using RowCells = std::array<std::string_view, kColumnNames.size()>;

/// Makes queries of rows. One parser reads many; it keeps its memory.
class RowParser {
public:
    /// Fills all of `query` but sequence, due and source_id; the message is good until the next
    /// call. False where the row is wrong: see error().
    bool parse(const RowCells& cells, Query& query);

    /// For example `column type: "AAAB" is not a type; did you mean AAAA?`.
    [[nodiscard]] const std::string& error() const { return error_; }

private:
    bool parse_transport_cells(Query& query);
    bool parse_endpoints(Query& query);
    bool parse_close(Query& query);
    bool parse_message_cells();
    bool parse_edns_cells();
    bool check_edns();
    bool build_message(Query& query);
    bool read_hex(Query& query);
    bool check_against(const MessageColumns& hex);

    [[nodiscard]] std::string_view cell(Column column) const {
        return cells_->at(static_cast<size_t>(column));
    }

    [[nodiscard]] bool has(Column column) const { return cell(column) != kNoCell; }

    /// Parses the cell unless it is "-"; explains what was expected where that fails.
    template <typename Parse> bool take(Column column, Parse parse);
    template <typename T> bool take_number(Column column, T& out);

    /// With the error set; always false.
    bool fail(Column column, const std::string& what);

    /// Whether the cell has something; fails with `what` where not.
    bool want(Column column, const std::string& what);

    const RowCells* cells_ = nullptr; ///< of the row being parsed
    WireName name_;
    std::vector<std::uint8_t> options_;
    MessageColumns columns_;
    std::vector<std::uint8_t> message_;
    std::string error_;
};

// The line of the text form that names the columns.

class TextHeader {
public:
    /// Throws TraceError where `line` names a column twice or one that there is not, or where one
    /// is missing without which no row makes sense; `place` begins the error.
    TextHeader(std::string_view line, const std::string& place);

    /// The cells of a row without its line end, good as long as it. Columns that the header does
    /// not name, and empty cells, are "-". False where the row has more or fewer than the header.
    bool split(std::string_view row, RowCells& cells) const;

    /// Whether this is a row's first column.
    [[nodiscard]] bool begins_with(Column column) const { return order_.front() == column; }

    /// Why split() failed for a row.
    [[nodiscard]] std::string explain(std::string_view row) const;

private:
    void add_column(std::string_view name, const std::string& place);
    void check_columns(const std::string& place) const;
    [[nodiscard]] bool has(Column column) const;

    std::vector<Column> order_;
};

} // namespace reprise::trace
