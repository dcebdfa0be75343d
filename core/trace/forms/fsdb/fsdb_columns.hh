#pragma once
// The columns of an fsdb file (fsdb_source.hh).

#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {

/// The word at the beginning of `text` and the separator behind it, taken off. `separator` 0: any
/// run of blanks; then blanks before the word are taken off as well.
std::string_view take_word(std::string_view& text, char separator = 0);

class FsdbColumns {
public:
    /// Those of LDplayer's manual.
    FsdbColumns();

    /// Those of a line "#fsdb ...". Throws TraceError where one is missing without which no row
    /// makes sense, or is there twice; `place` begins the error.
    FsdbColumns(std::string_view header, const std::string& place);

    /// As TextHeader::split().
    bool split(std::string_view row, RowCells& cells) const;

    [[nodiscard]] size_t count() const { return order_.size(); }

    /// Names of columns that nothing is known about.
    [[nodiscard]] const std::vector<std::string>& ignored() const { return ignored_; }

private:
    void read_option(std::string_view option, std::string_view& rest);
    void add_column(std::string_view name, const std::string& place);
    void check(const std::string& place) const;
    [[nodiscard]] bool has(Column column) const;

    std::vector<std::optional<Column>> order_; ///< nothing where it is ignored
    std::vector<std::string> ignored_;
    char separator_ = 0;
};

} // namespace reprise::trace
