#pragma once
// Queries as fsdb text: LDplayer's plain text input, which its manual (dns-replay-client(1), input
// format `text`) describes as a Fsdb file where each line has "time, source ip, query name, query
// class, query type, protocol", delimited by spaces. What it leaves open is read so:
//
// - A line `#fsdb [-F SEPARATOR] NAME ...` says which column is which, in any order, by the usual
//   names in any spelling (kNames in the source): srcip or source_ip, qname or name, and so on,
//   also ports, destination, id, EDNS size and DO. Columns with other names are passed over and
//   listed in description(). Without that line a file is known by six columns in the manual's
//   order.
// - Separators: blanks and tabs, or what -F says (t tab, s or S spaces, D any blanks, another
// character).
// - Lines that begin with # are comments; "-" is nothing (both as Fsdb has it).
// - Class and type are words or numbers; the protocol a word or 6 and 17 (IP's numbers).
// - A query without id gets its number modulo 65536, one without port 10000 + its number modulo
//   50000; there are no flags and no EDNS but where columns tell of them. Destination: as in the
//   text form.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"
#include "core/trace/reassembly/message.hh"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {

// The columns of an fsdb file (fsdb_source.hh).

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

bool looks_like_fsdb(Bytes head);

std::unique_ptr<MessageSource> open_fsdb(std::unique_ptr<ByteStream> stream,
                                         const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
