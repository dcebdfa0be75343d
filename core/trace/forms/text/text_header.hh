#pragma once
// The line of the text form that names the columns.

#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {

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
