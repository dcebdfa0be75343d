#include "core/trace/reader.hh"

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/forms/cdns/cdns_source.hh"
#include "core/trace/forms/dnstap/dnstap_source.hh"
#include "core/trace/forms/form.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/stream/stream_form.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/opened.hh"
#include "core/trace/reassembly/assembler.hh"
#include "core/trace/reassembly/packet.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

/// In the order in which they are asked.
const std::vector<Form>& forms() {
    static const std::vector<Form> known{
        {.fits = looks_like_dnstap, .open = open_dnstap},
        {.fits = looks_like_cdns, .open = open_cdns},
        {.fits = looks_like_stream, .open = open_stream},
        {.fits = looks_like_text, .open = open_text},
        {.fits = looks_like_fsdb, .open = open_fsdb},
        {.fits = looks_like_dnsperf, .open = open_dnsperf},
    };
    return known;
}

bool is_text(Bytes head) {
    return !head.empty() && std::ranges::all_of(head, [](std::uint8_t byte) {
        return (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\r' || byte == '\n';
    });
}

/// Looks for a line that is whole and neither empty nor a comment, in text that comes in parts.
class ContentFinder {
public:
    /// Whether there is one up to the end of `part`.
    bool find(Bytes part) {
        return std::ranges::any_of(part, [this](std::uint8_t byte) { return ends_content(byte); });
    }

private:
    bool ends_content(std::uint8_t byte) {
        if (byte == '\n') {
            fresh_ = true;
            return content_;
        }
        if (fresh_ && byte != '\r' && byte != ' ' && byte != '\t') {
            content_ = byte != '#' && byte != ';';
            fresh_ = false;
        }
        return false;
    }

    bool content_ = false; ///< in the line
    bool fresh_ = true;    ///< nothing was in the line yet
};

/// Enough of the beginning for Form::fits().
Bytes peek_head(ByteStream& stream) {
    constexpr size_t kMost = 1UL << 20U; // of comments before the first row
    Bytes head = stream.peek(Form::kHead);
    if (!is_text(head)) {
        return head;
    }
    ContentFinder content;
    for (size_t size = 0; size < head.size() && !content.find(head.subspan(size));) {
        size = head.size();
        head = stream.peek_line(kMost);
    }
    return head;
}

} // namespace

Opened open_trace(const std::string& path, const ReaderOptions& options) {
    auto stream = std::make_unique<ByteStream>(path);
    const Bytes head = peek_head(*stream);
    const auto form = std::ranges::find_if(forms(), [&](const Form& f) { return f.fits(head); });
    if (form != forms().end()) {
        return {.packets = nullptr, .messages = form->open(std::move(stream), path, options)};
    }
    return {.packets = open_source(std::move(stream), path), .messages = nullptr};
}

/// Packets of a capture are put together here; other forms yield whole messages.
struct Reader::State {
    State(const std::string& path, const ReaderOptions& options)
        : trace(open_trace(path, options)), assembler(options) {}

    Opened trace;
    Assembler assembler;
    std::uint64_t packets = 0;
    bool finished = false;

    void advance() {
        Packet packet;
        if (trace.packets->next(packet)) {
            ++packets;
            assembler.feed(packet);
        } else {
            finished = true;
            assembler.finish();
        }
    }

    bool next_of_capture(Query& message) {
        while (!assembler.pop(message)) {
            if (finished) {
                return false;
            }
            advance();
        }
        return true;
    }
};

Reader::Reader(const std::string& path, const ReaderOptions& options)
    : state_(std::make_unique<State>(path, options)) {}

Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

bool Reader::next(Query& message) {
    return state_->trace.packets ? state_->next_of_capture(message)
                                 : state_->trace.messages->next(message);
}

Counters Reader::counters() const {
    return state_->trace.packets ? state_->assembler.tally().named()
                                 : state_->trace.messages->counters();
}

std::uint64_t Reader::packets() const {
    return state_->trace.packets ? state_->packets : state_->trace.messages->packets();
}

const std::string& Reader::trouble() const { return state_->trace.trouble(); }

double Reader::share_read() const { return state_->trace.share_read(); }

std::string Reader::description() const { return state_->trace.description(); }

} // namespace reprise::trace
