#pragma once
// Queries as the bytes of an output form. Apart from the file they go to, so that encoding is a
// stage of its own in the pipeline.

#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::trace {

enum class OutputForm : std::uint8_t { kPcap, kText, kStream };

/// What a form could not hold.
struct EncoderLosses {
    std::uint64_t connections_split = 0; ///< went on as a connection of their own
    std::uint64_t closes_left_out = 0;
};

class QueryEncoder {
public:
    QueryEncoder() = default;
    virtual ~QueryEncoder() = default;
    QueryEncoder(const QueryEncoder&) = delete;
    QueryEncoder& operator=(const QueryEncoder&) = delete;

    /// What stands before the first query.
    virtual void begin(std::string& out) = 0;

    /// Appends a query or a close, in the order of the trace. May keep some back for a later call.
    /// Throws Error with the hint where the form cannot hold it.
    virtual void encode(const Query& query, std::string& out) = 0;

    /// The end of a batch: the stream form ends its block here, so that a live reader waits for
    /// nothing.
    virtual void flush(std::string& /*out*/) {}

    /// What stands behind the last query.
    virtual void finish(std::string& /*out*/) {}

    /// So far.
    [[nodiscard]] virtual EncoderLosses losses() const { return {}; }
};

// The text form (text/rows.cc).

inline constexpr std::string_view kTextMagic = "#reprise-text";
inline constexpr unsigned kTextVersion = 1;

/// The first two lines.
void append_text_header(std::string& out);

/// A query or a close, with the line's end. The message must have at least 12 bytes.
void append_text_row(std::string& out, const Query& query);

/// Queries as rows of the text form.
std::unique_ptr<QueryEncoder> make_text_encoder();

std::unique_ptr<QueryEncoder> make_stream_encoder();

/// Queries as a capture (pcap_encoder.hh). `connections`: those that are followed, as many as the
/// reader does (ReaderOptions::connections). Beyond that the longest unused one is forgotten: if it
/// is used again, it begins again. Encoding throws Error for transports and times that a capture
/// has no place for.
std::unique_ptr<QueryEncoder> make_pcap_encoder(size_t connections = 262'144);

inline std::unique_ptr<QueryEncoder> make_encoder(OutputForm form) {
    return form == OutputForm::kPcap   ? make_pcap_encoder()
           : form == OutputForm::kText ? make_text_encoder()
                                       : make_stream_encoder();
}

/// Of "pcap", "text" or "stream".
inline OutputForm form_named(std::string_view word) {
    return word == "pcap"   ? OutputForm::kPcap
           : word == "text" ? OutputForm::kText
                            : OutputForm::kStream;
}

/// The form that a file name asks for by its ending (.pcap, .tsv or .txt, .rps), if it does.
inline std::optional<OutputForm> form_of(std::string_view path) {
    const bool text = path.ends_with(".tsv") || path.ends_with(".txt");
    return text || path.ends_with(".pcap")
               ? std::optional(text ? OutputForm::kText : OutputForm::kPcap)
           : path.ends_with(".rps") ? std::optional(OutputForm::kStream)
                                    : std::nullopt;
}

} // namespace reprise::trace
