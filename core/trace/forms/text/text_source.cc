#include "core/trace/forms/text/text_source.hh"

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/line_reader.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_source.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"
#include "core/trace/reassembly/message.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {
namespace {

/// Without the cells that a spreadsheet puts behind a short line.
std::string_view without_blanks(std::string_view line) {
    return line.substr(0, line.find_last_not_of(" \t") + 1);
}

/// The header's two lines.
TextHeader read_header(LineReader& lines, const std::string& path) {
    std::string_view line;
    lines.next(line);
    const std::string first = fmt::format("{} {}", kTextMagic, kTextVersion);
    if (without_blanks(line) != first) {
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
    return {line, path + " line 2"};
}

class TextSource final : public QuerySource {
public:
    TextSource(std::unique_ptr<ByteStream> stream, const std::string& path,
               const ReaderOptions& options)
        : QuerySource(options), lines_(std::move(stream)), header_(read_header(lines_, path)) {}

    [[nodiscard]] bool ready() const override { return lines_.has_content() && takes_closes(); }

    [[nodiscard]] double share_read() const override { return lines_.stream().share_read(); }

    [[nodiscard]] std::string description() const override {
        return describe("text", lines_.stream());
    }

private:
    bool next_query(Query& query) override {
        std::string_view line;
        do {
            if (!lines_.next(line) && !lines_.unfinished()) {
                return lines_.trouble().empty() ? false : fail(place(), lines_.trouble());
            }
            if (lines_.unfinished()) { // what is left of a row may be a good row with other values
                return fail(place(), "the trace is cut or corrupt: its last line has no line feed");
            }
            if (hides_row(line)) {
                return fail(place(), "this is a row whose name begins with #, or a comment with as "
                                     "many cells; write \\035 for the #, or take the tabs out of "
                                     "the comment");
            }
        } while (line.empty() || line[0] == '#');
        if (!header_.split(line, cells_)) {
            return fail(place(), header_.explain(line));
        }
        return rows_.parse(cells_, query) || fail(place(), rows_.error());
    }

    /// No cell but a name may begin with #, so only where names come first a comment can be a row.
    bool hides_row(std::string_view line) {
        return line.starts_with('#') && header_.begins_with(Column::kName) &&
               header_.split(line, cells_);
    }

    [[nodiscard]] std::string place() const { return fmt::format("line {}", lines_.number()); }

    LineReader lines_;
    TextHeader header_;
    RowCells cells_{};
    RowParser rows_;
};

} // namespace

bool looks_like_text(Bytes head) {
    return without_byte_order_mark({reinterpret_cast<const char*>(head.data()), head.size()})
        .starts_with(kTextMagic);
}

std::unique_ptr<MessageSource> open_text(std::unique_ptr<ByteStream> stream,
                                         const std::string& path, const ReaderOptions& options) {
    return std::make_unique<TextSource>(std::move(stream), path, options);
}

} // namespace reprise::trace
