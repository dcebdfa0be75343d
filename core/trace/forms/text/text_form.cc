// Queries as text (docs/formats.md). The text form, version 1: two lines of header, then a row of
// tab-separated cells for each query, made for awk and spreadsheets. Exact: the columns stand for
// the message where they make the same bytes again, else the cell `hex` has the whole message and
// the others show what they can.
//
// LDplayer's fsdb and dnsperf's query files are read as dialects of it. Rows are yielded as they
// come. A bad row ends the reading: trouble() names its line and column, what was expected, and how
// many queries were good.

#include "core/base/text.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/text/columns.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

// Dialects.

constexpr std::string_view kBlanks = " \t";
constexpr std::array kNeeded{Column::kTime, Column::kSource, Column::kName, Column::kType};

/// How a kind of text lays out its rows.
struct Dialect {
    std::string_view form;
    std::string note{};      ///< behind the form in description()
    std::string_view misfit; ///< of a row; {0}: its cells if tabs separate them, {1}: columns
    std::vector<Column> order{};
    char separator = 0;      ///< between cells that may be missing; 0: any run of blanks
    bool semicolons = false; ///< begin comments too, and lines of blanks are no rows
    bool exact = false; ///< tabs separate the cells, each row has all, and each line its line feed
    bool numbers = false; ///< class, type and transport may be numbers
    bool made_up = false; ///< where no column tells id, port and time, the query's number does
    Row row{};            ///< what cells that say nothing stand for

    [[nodiscard]] bool has(Column column) const {
        return std::ranges::find(order, column) != order.end();
    }

    /// The cells of a row without its line end, good as long as it. False where it does not fit.
    bool split(std::string_view line, RowCells& cells) const;
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// The cell at the beginning of `row`, taken off with the separator behind it, and with blanks
/// before it where any run of them separates. Where no separator is behind it, `row` is null then.
[[gnu::always_inline]] inline std::string_view take_cell(std::string_view& row,
                                                         char separator = 0) {
    if (separator == 0) {
        row.remove_prefix(std::min(row.find_first_not_of(kBlanks), row.size()));
    }
    const auto* const end = separator == 0
                                ? std::ranges::find_if(row, is_blank)
                                : row.begin() + std::min(row.find(separator), row.size());
    const std::string_view cell(row.begin(), end);
    row = end == row.end() ? std::string_view() : std::string_view(end + 1, row.end());
    return cell;
}

bool Dialect::split(std::string_view line, RowCells& cells) const {
    cells.clear();
    if (exact) {
        for (const Column column : order) {
            if (line.data() == nullptr) {
                return false;
            }
            cells.set(column, take_cell(line, '\t'));
        }
        return line.data() == nullptr;
    }
    for (const Column column : order) {
        const std::string_view cell = take_cell(line, separator);
        if (cell.empty() && separator == 0) {
            return false;
        }
        cells.set(column, cell);
    }
    return std::ranges::all_of(line, is_blank);
}

void add_text_column(Dialect& dialect, std::string_view name, const std::string& place) {
    const auto names = kColumns | std::views::transform(&ColumnKind::name);
    const auto found = std::ranges::find(kColumns, name, &ColumnKind::name);
    if (found == kColumns.end()) {
        const std::string_view near = nearest_word(name, names);
        throw TraceError(fmt::format(
            "{}: {} is not a column{}; tabs separate them, and there are {}", place,
            quoted_cell(name), near.empty() ? "" : fmt::format(", did you mean {}?", near),
            joined(names, " ")));
    }
    const auto column = static_cast<Column>(found - kColumns.begin());
    if (dialect.has(column)) {
        throw TraceError(
            fmt::format("{}: column {} is there twice; leave one of them out", place, name));
    }
    dialect.order.emplace_back(column);
}

/// By the header's two lines.
Dialect text_dialect(LineReader& lines, const std::string& path, std::string_view& /*row*/) {
    std::string_view line;
    lines.next(line);
    const std::string first = fmt::format("{} {}", kTextMagic, kTextVersion);
    // Without the cells that a spreadsheet puts behind a short line.
    if (line.substr(0, line.find_last_not_of(kBlanks) + 1) != first) {
        throw TraceError(fmt::format("{} line 1: {} is not a version of the text form that can be "
                                     "read; this program reads \"{}\"",
                                     path, quoted_cell(line), first));
    }
    if (!lines.next(line)) {
        throw TraceError(
            fmt::format("{} line 2: the names of the columns are missing{}{}; put them "
                        "there, as docs/formats.md has them",
                        path, lines.trouble().empty() ? "" : ": ", lines.trouble()));
    }
    Dialect dialect{.form = "text",
                    .misfit = "the row has {0} columns, the header {1}; separate cells by one tab "
                              "each and put - where there is nothing",
                    .exact = true};
    do {
        add_text_column(dialect, take_cell(line, '\t'), path + " line 2");
    } while (line.data() != nullptr);
    for (const Column column : kNeeded) {
        const bool of_message = column == Column::kName || column == Column::kType;
        if (!dialect.has(column) && !(of_message && dialect.has(Column::kHex))) {
            throw TraceError(
                fmt::format("{} line 2: there is no column {}; rows need time, source, "
                            "and name and type or hex",
                            path, kind_of(column).name));
        }
    }
    return dialect;
}

constexpr std::string_view kFsdbMagic = "#fsdb";

bool has_fsdb_magic(std::string_view line) {
    return line.starts_with(kFsdbMagic) &&
           (line.size() == kFsdbMagic.size() ||
            kBlanks.find(line[kFsdbMagic.size()]) != std::string_view::npos);
}

/// The column of a name in any case, if there is one, with underscores and hyphens, and with the
/// type that newer Fsdb writes behind a colon.
Column fsdb_column(std::string_view name) {
    std::string plain(name.substr(0, name.find(':')));
    std::erase_if(plain, [](char c) { return c == '_' || c == '-'; });
    std::ranges::transform(plain, plain.begin(), Lower{});
    for (size_t i = 0; i < kColumns.size(); ++i) {
        for (std::string_view names = kColumns.at(i).fsdb; !names.empty();) {
            if (take_cell(names) == plain) {
                return static_cast<Column>(i);
            }
        }
    }
    return Column::kUnknown;
}

/// What Fsdb's -F stands for: a code, C and the character, or the character.
char separator_of(std::string_view code) {
    if (code == "t") {
        return '\t';
    }
    if (code.empty() || code == "s" || code == "S" || code == "D") {
        return 0;
    }
    return code[0] == 'C' && code.size() > 1 ? code[1] : code[0];
}

/// As LDplayer's manual (dns-replay-client(1), input format `text`) has it: a line has "time,
/// source ip, query name, query class, query type, protocol", delimited by spaces.
Dialect ldplayer_dialect() {
    return {.form = "fsdb",
            .misfit = "the row does not have the {1} columns of the header",
            .order = {Column::kTime, Column::kSource, Column::kName, Column::kClass, Column::kType,
                      Column::kTransport},
            .numbers = true,
            .made_up = true};
}

/// By a line "#fsdb [-F SEPARATOR] NAME ...".
void read_fsdb_header(std::string_view header, const std::string& place, Dialect& dialect) {
    dialect.order.clear();
    take_cell(header); // "#fsdb"
    for (auto word = take_cell(header); !word.empty(); word = take_cell(header)) {
        if (word[0] == '-') {
            const std::string_view value = word.size() > 2 ? word.substr(2) : take_cell(header);
            dialect.separator = word.starts_with("-F") ? separator_of(value) : dialect.separator;
            continue;
        }
        const Column column = fsdb_column(word);
        if (column == Column::kUnknown) {
            dialect.note += dialect.note.empty() ? " (not read:" : "";
            dialect.note += fmt::format(" {}", word);
        } else if (dialect.has(column)) {
            throw TraceError(
                fmt::format("{}: column {} is there twice under different names; leave "
                            "one of them out",
                            place, word));
        }
        dialect.order.push_back(column);
    }
    dialect.note += dialect.note.empty() ? "" : ")";
    for (const Column needed : kNeeded) {
        if (std::string_view names = kind_of(needed).fsdb; !dialect.has(needed)) {
            throw TraceError(fmt::format("{}: there is no column {}; name the columns, such as "
                                         "#fsdb time srcip qname class type protocol",
                                         place, take_cell(names)));
        }
    }
}

/// By the header, or as in LDplayer's manual; `row` is the first row where there is no header.
Dialect fsdb_dialect(LineReader& lines, const std::string& path, std::string_view& row) {
    Dialect dialect = ldplayer_dialect();
    for (std::string_view line; row.empty() && lines.next(line);) {
        if (has_fsdb_magic(line)) {
            read_fsdb_header(line, fmt::format("{} line {}", path, lines.number()), dialect);
            break;
        }
        row = line.starts_with('#') ? std::string_view() : line;
    }
    return dialect;
}

/// A name and a type in each line, class IN, RD as dnsperf sets it. There are no times and clients.
Dialect dnsperf_dialect() {
    constexpr std::array<std::uint8_t, 4> kSource{198, 18, 0, 1};
    return {.form = "dnsperf queries",
            .note = " (times and source invented)",
            .misfit = "this is not a name and a type, such as www.example.com AAAA",
            .order = {Column::kName, Column::kType},
            .semicolons = true,
            .made_up = true,
            .row = {.source = IpAddress::v4(kSource.data()), .flags = 0x0100}};
}

bool is_number(std::string_view cell) {
    return !cell.empty() && std::ranges::all_of(cell, [](char c) { return c >= '0' && c <= '9'; });
}

class TextSource final : public QuerySource {
public:
    using ReadDialect = Dialect (*)(LineReader&, const std::string& path, std::string_view& row);

    TextSource(std::unique_ptr<ByteStream> stream, const std::string& path, ReadDialect read)
        : QuerySource("", std::move(stream)), lines_(*stream_), dialect_(read(lines_, path, line_)),
          kept_(!line_.empty()) {
        form_ = dialect_.form;
    }

    [[nodiscard]] bool ready() const override { return dialect_.exact && lines_.has_content(); }

    [[nodiscard]] std::string description() const override {
        return QuerySource::description() + dialect_.note;
    }

private:
    bool next_query(Query& query) override {
        do {
            if (!next_line()) {
                return false;
            }
        } while (
            line_.empty() || line_[0] == '#' ||
            (dialect_.semicolons && (line_[0] == ';' || std::ranges::all_of(line_, is_blank))));
        if (!dialect_.split(line_, cells_)) {
            return fail(place(),
                        fmt::format(fmt::runtime(dialect_.misfit),
                                    std::ranges::count(line_, '\t') + 1, dialect_.order.size()));
        }
        if (dialect_.made_up) {
            make_up();
        }
        if (dialect_.numbers) {
            spell_numbers();
        }
        return parse_row(cells_, dialect_.row, memory_, query, error_) || fail(place(), error_);
    }

    bool next_line() {
        if (std::exchange(kept_, false)) {
            return true;
        }
        const bool more = lines_.next(line_);
        if (dialect_.exact && lines_.unfinished()) {
            // What is left of a row may be a good row with other values.
            return fail(place(), "the trace is cut or corrupt: its last line has no line feed");
        }
        if (!more) {
            return !lines_.trouble().empty() && fail(place(), lines_.trouble());
        }
        // No cell but a name may begin with #, so only where names come first a comment can be a
        // row.
        if (dialect_.exact && line_.starts_with('#') && dialect_.order.front() == Column::kName &&
            dialect_.split(line_, cells_)) {
            return fail(place(), "this is a row whose name begins with #, or a comment with as "
                                 "many cells; write \\035 for the #, or take the tabs out of "
                                 "the comment");
        }
        return true;
    }

    void make_up() {
        constexpr Nanoseconds kBegin = 1'704'067'200 * kSecond; // 2024-01-01T00:00:00Z
        Row& row = dialect_.row;
        row.time = kBegin + static_cast<Nanoseconds>(items_) * kMillisecond;
        row.port = static_cast<std::uint16_t>(10'000 + items_ % 50'000);
        row.id = static_cast<std::uint16_t>(items_ % 65'536);
    }

    void spell_numbers() {
        const auto spell = [this](Column column, std::string_view prefix, std::string& memory) {
            if (cells_.has(column) && is_number(cells_[column])) {
                memory = prefix;
                memory += cells_[column];
                cells_.set(column, memory);
            }
        };
        spell(Column::kType, "TYPE", type_);
        spell(Column::kClass, "CLASS", class_);
        if (cells_.has(Column::kTransport)) {
            const std::string_view protocol = cells_[Column::kTransport];
            cells_.set(Column::kTransport, protocol == "17"  ? "udp"
                                           : protocol == "6" ? "tcp"
                                                             : protocol);
        }
    }

    [[nodiscard]] std::string place() const { return fmt::format("line {}", lines_.number()); }

    LineReader lines_;
    std::string_view line_; ///< the one read last
    Dialect dialect_;
    bool kept_; ///< the line is still to be parsed
    RowCells cells_;
    RowMemory memory_;
    std::string error_; ///< of the row
    std::string type_;  ///< what spelled cells refer to
    std::string class_;
};

/// Whether the first row has in these columns what it should.
bool first_row_fits(const Dialect& dialect, Bytes head, std::initializer_list<Column> columns) {
    RowCells cells;
    Row row;
    RowMemory memory;
    return dialect.split(first_content(text_of(head)), cells) &&
           std::ranges::all_of(columns, [&](Column column) {
               const bool number = dialect.numbers && column == Column::kTransport;
               return cells.has(column) && ((number && is_number(cells[column])) ||
                                            kind_of(column).parse(cells[column], row, memory));
           });
}

bool is_text_form(Bytes head) {
    return without_byte_order_mark(text_of(head)).starts_with(kTextMagic);
}

bool is_fsdb(Bytes head) {
    return has_fsdb_magic(text_of(head)) ||
           first_row_fits(ldplayer_dialect(), head,
                          {Column::kTime, Column::kSource, Column::kTransport});
}

bool is_dnsperf(Bytes head) {
    return first_row_fits(dnsperf_dialect(), head, {Column::kType, Column::kName});
}

template <TextSource::ReadDialect kRead>
std::unique_ptr<TraceSource> open_dialect(std::unique_ptr<ByteStream> stream,
                                          const std::string& path) {
    return std::make_unique<TextSource>(std::move(stream), path, kRead);
}

} // namespace

const Form kTextForm{.fits = is_text_form, .open = open_dialect<text_dialect>};
const Form kFsdbForm{.fits = is_fsdb, .open = open_dialect<fsdb_dialect>};
const Form kDnsperfForm{.fits = is_dnsperf,
                        .open = open_dialect<[](LineReader&, const std::string&,
                                                std::string_view&) { return dnsperf_dialect(); }>};

} // namespace reprise::trace
