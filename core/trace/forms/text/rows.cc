// Rows of the text form by their columns: from queries, and to queries.
#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/text/columns.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>

namespace reprise::trace {
namespace {

class TextEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override { append_text_header(out); }

    void encode(const Query& query, std::string& out) override { append_text_row(out, query); }
};

} // namespace

void append_text_header(std::string& out) {
    fmt::format_to(std::back_inserter(out), "{} {}\n{}\n", kTextMagic, kTextVersion,
                   joined(kColumns | std::views::transform(&ColumnKind::name), "\t"));
}

void append_text_row(std::string& out, const Query& query) {
    Row row{.time = query.time,
            .source = query.source.address,
            .destination = query.destination.address,
            .port = query.source.port,
            .dport = query.destination.port,
            .transport = query.transport,
            .connection = query.connection,
            .rtt = query.rtt_class,
            .idle = query.idle_class,
            .message = query.message};
    if (!query.is_close()) {
        read_message(query.message, row);
    }
    append_cells(out, row);
}

std::unique_ptr<QueryEncoder> make_text_encoder() { return std::make_unique<TextEncoder>(); }

namespace {

/// The columns from id to options: what a row says of a message besides hex.
constexpr unsigned kSaid = column_bit(Column::kRtt) - column_bit(Column::kId);

/// All but those: who asked whom, when and how.
constexpr unsigned kEnds =
    (column_bit(Column::kId) - 1) | column_bit(Column::kRtt) | column_bit(Column::kIdle);

class RowParser {
public:
    RowParser(const RowCells& cells, const Row& row, RowMemory& memory, std::string& error)
        : cells_(&cells), row_(row), memory_(&memory), error_(&error) {}

    bool parse(Query& query) {
        const bool close = has(Column::kId) && (*cells_)[Column::kId] == kCloseCell;
        if (!parse_ends() || !(close ? check_close() : parse_message())) {
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

private:
    [[nodiscard]] bool has(Column column) const { return cells_->has(column); }

    /// With the error set; always false.
    bool fail(Column column, std::string_view what) {
        *error_ = fmt::format("column {}: {}", kind_of(column).name, what);
        return false;
    }

    /// Whether the cell has something; fails with `what` where not.
    bool want(Column column, std::string_view what) { return has(column) || fail(column, what); }

    /// Parses the cell of a column that the row has.
    bool parse_cell(Column column) {
        return kind_of(column).parse((*cells_)[column], row_, *memory_) || fail_cell(column);
    }

    [[gnu::noinline]] bool fail_cell(Column column) {
        const ColumnKind& kind = kind_of(column);
        const std::string_view cell = (*cells_)[column];
        return fail(column,
                    fmt::format("{} {}{}", quoted_cell(cell), kind.expected, kind.hint(cell)));
    }

    /// The same of those of these columns that it has.
    bool parse_cells(unsigned columns) {
        return cells_->all_of(columns, [this](Column column) { return parse_cell(column); });
    }

    bool parse_ends() {
        const std::string_view time = "- where a time is needed, such as 1475762100.123456789";
        const bool told = row_.source.size() != 0 ||
                          (want(Column::kTime, time) &&
                           want(Column::kSource, "- where the client's address is needed"));
        if (!told || !parse_cells(kEnds)) {
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
        constexpr unsigned kOthers = (kSaid & ~column_bit(Column::kId)) | column_bit(Column::kHex);
        return cells_->all_of(kOthers, [this](Column column) {
            return fail(column, "a close has no message; put - here, or an id instead of close");
        });
    }

    bool parse_message() {
        row_.parts |= has(Column::kEdns) ? unsigned{kOfEdns} : 0U;
        return parse_cells(kSaid) &&
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
        make_message(row_, memory_->message);
        row_.message = memory_->message;
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

    const RowCells* cells_;
    Row row_;
    RowMemory* memory_;
    std::string* error_;
};

} // namespace

bool parse_row(const RowCells& cells, const Row& row, RowMemory& memory, Query& query,
               std::string& error) {
    return RowParser(cells, row, memory, error).parse(query);
}

} // namespace reprise::trace
