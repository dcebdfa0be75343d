#pragma once
// Rows of text to queries, by the columns. For text_form.cc only.

#include "core/base/bytes.hh"
#include "core/dns/message.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/text/columns.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::trace {

constexpr std::size_t index(Column column) { return static_cast<size_t>(column); }

constexpr unsigned bit(Column column) { return 1U << index(column); }

/// The columns from id to options: what a row says of a message besides hex.
inline constexpr unsigned kSaid = bit(Column::kRtt) - bit(Column::kId);

/// The cells of a row that are neither empty nor "-".
class RowCells {
public:
    void clear() { columns_ = 0; }

    void set(Column column, std::string_view cell) {
        const bool nothing = cell.empty() || (cell.size() == 1 && cell[0] == kNoCell[0]);
        cells_[index(column)] = cell;
        columns_ |= nothing ? 0U : bit(column);
    }

    [[nodiscard]] bool has(Column column) const { return (columns_ & bit(column)) != 0; }

    /// Of a column that it has.
    [[nodiscard]] std::string_view operator[](Column column) const { return cells_[index(column)]; }

    /// Whether `good` of every column of these that it has, in their order.
    template <typename Good> bool all_of(unsigned columns, Good good) const {
        for (unsigned left = columns_ & columns; left != 0; left &= left - 1) {
            if (!good(static_cast<Column>(std::countr_zero(left)))) {
                return false;
            }
        }
        return true;
    }

private:
    std::array<std::string_view, kColumns.size() + 1> cells_{}; ///< and of those unknown
    unsigned columns_ = 0;
};

/// Makes queries of rows. One parser reads many; it keeps its memory.
class RowParser {
public:
    /// Fills all of `query` but sequence, due and source_id; the message is good until the next
    /// call. `row` is what "-" stands for; a time and a source are needed unless it has a source.
    /// False where the row is wrong: see error().
    bool parse(const RowCells& cells, const Row& row, Query& query) {
        cells_ = &cells;
        row_ = row;
        if (!parse_ends() ||
            !(has(Column::kId) && cells[Column::kId] == kCloseCell ? check_close()
                                                                   : parse_message())) {
            return false;
        }
        query.time = row_.time;
        query.source = {.address = row_.source, .port = row_.port};
        query.destination = {.address = row_.destination, .port = row_.dport};
        query.connection = row_.connection;
        query.transport = row_.transport;
        query.rtt_class = row_.rtt;
        query.idle_class = row_.idle;
        query.message = row_.message;
        return true;
    }

    /// For example `column type: "AAAB" is not a type; did you mean AAAA?`.
    [[nodiscard]] const std::string& error() const { return error_; }

private:
    [[nodiscard]] bool has(Column column) const { return cells_->has(column); }

    /// With the error set; always false.
    bool fail(Column column, std::string_view what) {
        error_ = fmt::format("column {}: {}", kind_of(column).name, what);
        return false;
    }

    /// Whether the cell has something; fails with `what` where not.
    bool want(Column column, std::string_view what) { return has(column) || fail(column, what); }

    /// Parses the cell of a column that the row has.
    bool parse_cell(Column column) {
        return kind_of(column).parse((*cells_)[column], row_, memory_) || fail_cell(column);
    }

    [[gnu::noinline]] bool fail_cell(Column column) {
        const ColumnKind& kind = kind_of(column);
        const std::string_view cell = (*cells_)[column];
        return fail(column,
                    fmt::format("{} {}{}", quoted_cell(cell), kind.expected, kind.hint(cell)));
    }

    /// The same of any column; "-" leaves the row as it is.
    bool take(Column column) { return !has(column) || parse_cell(column); }

    bool parse_ends() {
        constexpr std::array kOthers{Column::kDestination, Column::kPort,       Column::kDport,
                                     Column::kTransport,   Column::kConnection, Column::kRtt,
                                     Column::kIdle};
        const bool told = row_.source.size() != 0;
        const std::string_view time = "- where a time is needed, such as 1475762100.123456789";
        if (!(told || want(Column::kTime, time)) || !take(Column::kTime) ||
            !(told || want(Column::kSource, "- where the client's address is needed")) ||
            !take(Column::kSource) ||
            !std::ranges::all_of(kOthers, [this](Column column) { return take(column); })) {
            return false;
        }
        if (!has(Column::kDestination)) {
            row_.destination = example_server(row_.source.is_v6());
        }
        return true;
    }

    bool check_close() {
        if (row_.transport == Transport::kUdp) {
            return fail(Column::kId, "a close needs a transport with connections, not udp");
        }
        constexpr unsigned kOthers = (kSaid & ~bit(Column::kId)) | bit(Column::kHex);
        return cells_->all_of(kOthers, [this](Column column) {
            return fail(column, "a close has no message; put - here, or an id instead of close");
        });
    }

    bool parse_message() {
        row_.parts |= has(Column::kEdns) ? unsigned{kOfEdns} : 0U;
        return cells_->all_of(kSaid, [this](Column column) { return parse_cell(column); }) &&
               (has(Column::kHex) ? parse_cell(Column::kHex) && check_hex() : build_message());
    }

    bool build_message() {
        if (!want(Column::kName, "- where a name is needed (or the message in hex)") ||
            !want(Column::kType, "- where a type is needed (or the message in hex)") ||
            !check_edns()) {
            return false;
        }
        if (message_size(row_) > kMaxMessage) {
            return fail(Column::kOptions, "the message would be over 65535 bytes; take some out");
        }
        make_message(row_, memory_.message);
        row_.message = memory_.message;
        return true;
    }

    /// Without an OPT record nothing of it can be said; 0 is as good as "-".
    bool check_edns() {
        const auto lacks = [this](Column column, const std::string& text) {
            return fail(column, text + " needs EDNS; put a UDP size into column edns, or - here");
        };
        const auto text = [this](Column column) { return std::string((*cells_)[column]); };
        return row_.has(kOfEdns) ||
               ((!row_.dnssec_ok || lacks(Column::kDo, text(Column::kDo))) &&
                (row_.version == 0 || lacks(Column::kVersion, text(Column::kVersion))) &&
                (row_.options.empty() ||
                 lacks(Column::kOptions, quoted_cell(text(Column::kOptions)))));
    }

    /// What the row says besides hex must be what hex says.
    bool check_hex() {
        Row hex;
        read_message(row_.message, hex);
        return cells_->all_of(kSaid, [&](Column column) {
            const ColumnKind& kind = kind_of(column);
            if (hex.has(kind.part) && kind.same(row_, hex)) {
                return true;
            }
            std::string says;
            append_cell(says, kind, hex);
            return fail(column, fmt::format("{} contradicts hex, which says {}; edit hex or set it "
                                            "to -",
                                            quoted_cell((*cells_)[column]), quoted_cell(says)));
        });
    }

    const RowCells* cells_ = nullptr; ///< of the row being parsed
    Row row_;
    RowMemory memory_;
    std::string error_;
};

} // namespace reprise::trace
