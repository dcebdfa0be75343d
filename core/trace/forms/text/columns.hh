#pragma once
// The columns that queries have in text, in one table: their names, and how a cell is read and
// written. Every form of text is read by it, and the text form is written by it.

#include "core/dns/name.hh"
#include "core/wire/query.hh"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {

inline constexpr std::string_view kNoCell = "-";        ///< nothing
inline constexpr std::string_view kCloseCell = "close"; ///< in column id

/// In the order of kColumns, in which they are written.
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
    kUnknown, ///< no column
};

/// What a row has, as bits; a column of a part that it does not have is "-".
enum Part : unsigned {
    kOfQuery = 1,    ///< every row
    kOfMessage = 2,  ///< all but closes
    kOfQuestion = 4, ///< messages with a question whose name is not compressed
    kOfEdns = 8,     ///< messages with an OPT record
    kOfHex = 16,     ///< messages that the other columns do not say all of
};

/// A query or a close by its columns. Usual messages are the same bytes again when they are made
/// from them.
struct Row {
    unsigned parts = kOfQuery;
    Nanoseconds time = 0; ///< since the epoch
    IpAddress source{};
    IpAddress destination{};
    std::uint16_t port = 0;
    std::uint16_t dport = kDnsPort;
    Transport transport = Transport::kUdp;
    std::uint64_t connection = 0;
    std::uint16_t id = 0;
    std::uint16_t flags = 0; ///< AA, TC, RD, RA, Z, AD, CD: bits of the header's second word
    std::uint8_t opcode = 0; ///< 0 to 15
    Bytes name{};            ///< uncompressed, with the root
    std::uint16_t dns_class = 1;
    std::uint16_t type = 0;
    std::uint16_t edns = 0; ///< UDP size
    bool dnssec_ok = false;
    std::uint8_t version = 0;
    Bytes options{}; ///< whole options one after the other
    std::uint16_t rtt = 0;
    std::uint16_t idle = 0;
    Bytes message{}; ///< empty for a close

    [[nodiscard]] bool has(unsigned some) const { return (parts & some) != 0; }
};

/// What a row's bytes may lie in; kept from row to row.
struct RowMemory {
    Name name;
    std::vector<std::uint8_t> options;
    std::vector<std::uint8_t> message;
};

struct ColumnKind {
    std::string_view name;
    std::string_view fsdb; ///< its names in fsdb files, in lower case without _ and -
    Part part;
    std::string_view expected; ///< behind a wrong cell in an error

    /// False where the cell is nothing of the kind; the value is undefined then.
    bool (*parse)(std::string_view cell, Row& row, RowMemory& memory);
    void (*print)(std::string& out, const Row& row);
    bool (*same)(const Row& a, const Row& b);
    std::string (*hint)(std::string_view cell); ///< behind `expected`: the nearest word and such
};

extern const std::array<ColumnKind, 20> kColumns;

inline const ColumnKind& kind_of(Column column) {
    return kColumns[static_cast<std::size_t>(column)];
}

constexpr unsigned column_bit(Column column) { return 1U << static_cast<unsigned>(column); }

/// The cells of a row that are neither empty nor "-".
class RowCells {
public:
    void clear() { columns_ = 0; }

    void set(Column column, std::string_view cell) {
        const bool nothing = cell.empty() || (cell.size() == 1 && cell[0] == kNoCell[0]);
        cells_[static_cast<std::size_t>(column)] = cell;
        columns_ |= nothing ? 0U : column_bit(column);
    }

    [[nodiscard]] bool has(Column column) const { return (columns_ & column_bit(column)) != 0; }

    /// Of a column that it has.
    [[nodiscard]] std::string_view operator[](Column column) const {
        return cells_[static_cast<std::size_t>(column)];
    }

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

/// Appends what the row has in the column.
void append_cell(std::string& out, const ColumnKind& kind, const Row& row);

/// Appends all cells, with tabs between them and a line feed behind.
void append_cells(std::string& out, const Row& row);

/// A cell as it is named in an error: quoted, without control characters, not longer than a line.
std::string quoted_cell(std::string_view cell);

/// Fills in what `message`, of at least 12 bytes, has for columns: kOfHex unless make_message()
/// makes the same bytes of them.
void read_message(Bytes message, Row& row);

/// The size of the message that the columns make; it may exceed kMaxMessage.
size_t message_size(const Row& row);

/// The message that the columns make, in place of what is in `out`.
void make_message(const Row& row, std::vector<std::uint8_t>& out);

/// Fills all of `query` but sequence, due and source_id. `row` is what "-" stands for; a time and a
/// source are needed unless it has a source. The message is good as long as the cells and `memory`.
/// False where the row is wrong: `error` tells, for example, `column type: "AAAB" is not a type;
/// did you mean AAAA?`.
bool parse_row(const RowCells& cells, const Row& row, RowMemory& memory, Query& query,
               std::string& error);

} // namespace reprise::trace
