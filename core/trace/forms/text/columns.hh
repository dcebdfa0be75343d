#pragma once
// The columns that queries have in text, in one table: their names, and how a cell is read and
// written. Every form of text is read by it, and the text form is written by it.

#include "core/dns/name.hh"
#include "core/wire/query.hh"

#include <array>
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

} // namespace reprise::trace
