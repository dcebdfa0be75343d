#include "core/trace/forms/text/text_header.hh"

#include "core/base/nearest.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"
#include "core/trace/reassembly/message.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace reprise::trace {
namespace {

/// The cell at the beginning of `row` and its tab, taken off; `last` where no tab is behind it.
std::string_view take_cell(std::string_view& row, bool& last) {
    const void* tab = row.empty() ? nullptr : std::memchr(row.data(), '\t', row.size());
    last = tab == nullptr;
    const size_t size =
        last ? row.size() : static_cast<size_t>(static_cast<const char*>(tab) - row.data());
    const std::string_view cell = row.substr(0, size);
    row.remove_prefix(last ? size : size + 1);
    return cell;
}

} // namespace

TextHeader::TextHeader(std::string_view line, const std::string& place) {
    for (bool last = false; !last;) {
        add_column(take_cell(line, last), place);
    }
    check_columns(place);
}

bool TextHeader::has(Column column) const {
    return std::ranges::find(order_, column) != order_.end();
}

void TextHeader::add_column(std::string_view name, const std::string& place) {
    const auto found = std::ranges::find(kColumnNames, name);
    if (found == kColumnNames.end()) {
        const std::string_view near = nearest_word(name, kColumnNames);
        throw TraceError(fmt::format(
            "{}: {} is not a column{}; tabs separate them, and there are {}", place,
            quoted_cell(name), near.empty() ? "" : fmt::format(", did you mean {}?", near),
            fmt::join(kColumnNames, " ")));
    }
    const auto column = static_cast<Column>(found - kColumnNames.begin());
    if (has(column)) {
        throw TraceError(
            fmt::format("{}: column {} is there twice; leave one of them out", place, name));
    }
    order_.push_back(column);
}

void TextHeader::check_columns(const std::string& place) const {
    for (const Column column : {Column::kTime, Column::kSource, Column::kName, Column::kType}) {
        const bool of_message = column == Column::kName || column == Column::kType;
        if (!has(column) && !(of_message && has(Column::kHex))) {
            throw TraceError(fmt::format("{}: there is no column {}; rows need time, source, and "
                                         "name and type or hex",
                                         place, kColumnNames.at(static_cast<size_t>(column))));
        }
    }
}

bool TextHeader::split(std::string_view row, RowCells& cells) const {
    cells.fill(kNoCell);
    bool last = false;
    for (const Column column : order_) {
        if (last) {
            return false;
        }
        const std::string_view cell = take_cell(row, last);
        if (!cell.empty()) {
            cells.at(static_cast<size_t>(column)) = cell;
        }
    }
    return last;
}

std::string TextHeader::explain(std::string_view row) const {
    return fmt::format("the row has {} columns, the header {}; separate cells by one tab each and "
                       "put - where there is nothing",
                       std::ranges::count(row, '\t') + 1, order_.size());
}

} // namespace reprise::trace
