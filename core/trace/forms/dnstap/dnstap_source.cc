// dnstap files: frame streams (libfstrm), one direction, of content type protobuf:dnstap.Dnstap, as
// servers write them.
//
// A frame holds a query, a response, or a response with its query. Every query is yielded once: the
// query in a response's frame only where no frame of its own came before (among the last 65,536
// queries). Such queries lie behind those that were asked later and answered sooner, so from the
// first one on the messages of a file are put in order, as far as 256 MiB hold those of 15 s; those
// of a pipe come as they are. A step back of the clock is kept. Client and upstream side are
// yielded alike; counters tell how many frames there were of each type, e.g. `dnstap_client_query`.
// ReaderOptions::ports does not matter here: every frame is DNS. Connections are not known.

#include "core/base/flat_ids.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/dnstap/dnstap.pb.h"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstrm.h>
#include <fstrm/control.h>
#include <fstrm/rdwr.h>
#include <fstrm/reader.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {
namespace {

constexpr std::string_view kContentType = "protobuf:dnstap.Dnstap";
constexpr std::uint32_t kControlStart = 2;
constexpr size_t kRemembered = 65'536;               ///< queries, at least
constexpr Nanoseconds kLongestAnswer = 15 * kSecond; ///< takes no longer
constexpr size_t kMostHeld = 256UL << 20U;           ///< bytes of messages that wait for earlier

/// Who saw it, by Exchange::type: 1 is a query of the first, 2 a response, 3 a query of the next.
constexpr std::array<std::string_view, 7> kSides{"auth", "resolver", "client", "forwarder",
                                                 "stub", "tool",     "update"};
constexpr unsigned kTypes = 1 + 2 * kSides.size();

/// The stream beneath libfstrm's reader.
struct Input {
    ByteStream* stream;
    bool ended = false; ///< libfstrm asked for bytes behind the last one
};

extern "C" fstrm_res dnstap_nothing(void* /*unused*/) { return fstrm_res_success; }

/// libfstrm wants all of `count` bytes or none.
extern "C" fstrm_res dnstap_read(void* object, void* data, size_t count) {
    Input& input = *static_cast<Input*>(object);
    input.ended = input.stream->read({static_cast<std::uint8_t*>(data), count}) < count;
    return input.ended ? fstrm_res_failure : fstrm_res_success;
}

struct ReaderCloser {
    // NOLINTNEXTLINE(misc-include-cleaner): fstrm.h declares it
    void operator()(fstrm_reader* reader) const { fstrm_reader_destroy(&reader); }
};

using FrameReader = std::unique_ptr<fstrm_reader, ReaderCloser>;

/// `input` must outlive the reader. The greatest frame is libfstrm's default, 1 MiB.
FrameReader make_reader(Input& input) {
    fstrm_rdwr* callbacks = fstrm_rdwr_init(&input);
    fstrm_rdwr_set_open(callbacks, dnstap_nothing);
    fstrm_rdwr_set_close(callbacks, dnstap_nothing);
    fstrm_rdwr_set_read(callbacks, dnstap_read);
    return FrameReader(fstrm_reader_init(nullptr, &callbacks));
}

std::string content_type(fstrm_reader* reader) {
    const fstrm_control* control = nullptr;
    const std::uint8_t* text = nullptr;
    size_t size = 0;
    const bool found =
        fstrm_reader_get_control(reader, FSTRM_CONTROL_START, &control) == fstrm_res_success &&
        fstrm_control_get_field_content_type(control, 0, &text, &size) == fstrm_res_success;
    return found ? std::string(text, text + size) : "";
}

std::optional<IpAddress> address_of(const std::string& text) {
    const Bytes bytes = bytes_of(text);
    if (bytes.size() == 4) {
        return IpAddress::v4(bytes.data());
    }
    return bytes.size() == 16 ? std::optional(IpAddress::v6(bytes.data())) : std::nullopt;
}

std::optional<Nanoseconds> time_of(std::uint64_t seconds, std::uint32_t nanoseconds) {
    constexpr std::uint64_t kEnd = kEndOfTraceTime / kSecond;
    if (seconds >= kEnd || nanoseconds >= kSecond) {
        return std::nullopt;
    }
    return static_cast<Nanoseconds>(seconds) * kSecond + nanoseconds;
}

/// A frame is written at the latest of its times.
std::optional<Nanoseconds> written_at(const dnstap::Exchange& exchange) {
    return exchange.has_response_time_sec()
               ? time_of(exchange.response_time_sec(), exchange.response_time_nsec())
           : exchange.has_query_time_sec()
               ? time_of(exchange.query_time_sec(), exchange.query_time_nsec())
               : std::nullopt;
}

/// A hash of ends and bytes.
std::uint64_t key_of(const Query& query, Bytes message) {
    const std::hash<Endpoint> end;
    return (end(query.source) * 31 + end(query.destination)) * 31 +
           std::hash<std::string_view>{}(text_of(message));
}

class DnstapSource final : public TraceSource {
public:
    DnstapSource(std::unique_ptr<ByteStream> stream, const std::string& path)
        : TraceSource("dnstap", std::move(stream)), input_{.stream = stream_.get()},
          reader_(make_reader(input_)) {
        open(path);
    }

    bool next(Packet& /*packet*/, Query& query) override {
        const auto due = [this] { // whether none may come that belongs before the first
            return waiting_.due(waiting_.memory() > kMostHeld ? kForEver : latest_ - patience_);
        };
        while (!due() && read_frame()) {
        }
        if (!waiting_.due(kForEver)) {
            return false;
        }
        query = waiting_.take();
        return true;
    }

    [[nodiscard]] Counters counters() const override {
        Counters out = counters_;
        for (size_t i = 1; i < types_.size(); ++i) {
            if (types_[i] != 0) {
                out.emplace(fmt::format("dnstap_{}_{}", kSides.at((i - 1) / 2),
                                        i % 2 != 0 ? "query" : "response"),
                            types_.at(i));
            }
        }
        return out;
    }

private:
    void open(const std::string& path) {
        if (fstrm_reader_open(reader_.get()) != fstrm_res_success) {
            throw TraceError(
                fmt::format("trace {} is cut or damaged in its first frame{}{}; copy it "
                            "again, or let the server that writes it finish",
                            path, stream_->error().empty() ? "" : ": ", stream_->error()));
        }
        const std::string type = content_type(reader_.get());
        if (type != kContentType) {
            std::string shown = type;
            std::ranges::replace_if(shown, [](char c) { return c <= ' ' || c > '~'; }, '?');
            throw TraceError(
                fmt::format("trace {} is a frame stream of type \"{}\", not \"{}\"; give "
                            "a dnstap file",
                            path, shown, kContentType));
        }
    }

    bool read_frame() {
        const std::uint8_t* data = nullptr;
        size_t size = 0;
        if (finished_) {
            return false;
        }
        const fstrm_res result = fstrm_reader_read(reader_.get(), &data, &size);
        if (result != fstrm_res_success) {
            finished_ = true;
            note_end(result);
            return false;
        }
        ++items_;
        const bool parsed = frame_.ParseFromArray(data, static_cast<int>(size));
        if (parsed && frame_.type() == 1 && frame_.has_message() && sane(frame_.message())) {
            take(frame_.message());
        } else {
            count(counters_, "dnstap_bad_frame");
        }
        return true;
    }

    /// A whole file ends with a stop frame, and nothing is behind it; a server that was killed did
    /// not write one.
    void note_end(fstrm_res result) {
        const bool stopped = result == fstrm_res_stop;
        std::uint8_t more = 0;
        const bool behind = stopped && dnstap_read(&input_, &more, 1) == fstrm_res_success;
        const std::string place =
            fmt::format("byte {}, after {} frames", stream_->offset(), items_);
        if (const std::string& error = stream_->error(); !error.empty()) {
            trouble_ = fmt::format("damaged at {}: {}", place, error);
        } else if (behind) {
            trouble_ = fmt::format("{}: {}", place, kBehindEnd);
        } else if (!stopped && input_.ended) {
            trouble_ = fmt::format("cut at {}: the stop frame is missing", place);
        } else if (!stopped) {
            trouble_ = fmt::format("damaged at {}: not a frame of dnstap", place);
        }
    }

    void take(const dnstap::Exchange& exchange) {
        if (exchange.type() == 0 || exchange.type() >= kTypes) {
            count(counters_, "dnstap_unknown_type");
        } else {
            ++types_.at(exchange.type());
        }
        if (exchange.query_message().empty() && exchange.response_message().empty()) {
            count(counters_, "dnstap_no_message");
            return;
        }
        const auto written = written_at(exchange);
        if (written) {
            steady_.of_query(*written);
        }
        const Query ends = ends_of(exchange);
        if (!exchange.query_message().empty()) {
            show_query(exchange, ends);
        }
        if (!exchange.response_message().empty()) {
            Query response = ends;
            std::swap(response.source, response.destination);
            show(exchange.response_message(), written, response);
        }
    }

    /// Ports and times that can be.
    [[nodiscard]] bool sane(const dnstap::Exchange& exchange) const {
        return exchange.query_port() <= 0xffffU && exchange.response_port() <= 0xffffU &&
               time_of(exchange.query_time_sec(), exchange.query_time_nsec()) &&
               time_of(exchange.response_time_sec(), exchange.response_time_nsec());
    }

    /// Even types are of responses.
    void show_query(const dnstap::Exchange& exchange, const Query& ends) {
        const std::uint64_t key = key_of(ends, bytes_of(exchange.query_message()));
        std::uint32_t* const waiting = recent_.find(key);
        if (exchange.type() % 2 != 0) {
            const std::uint32_t before = waiting != nullptr ? *waiting : 0;
            recent_.advance(0);
            recent_.add(key) = before + 1;
        } else if (waiting != nullptr && *waiting > 0) {
            --*waiting;
            return;
        } else {
            count(counters_, "dnstap_query_in_response_only");
            patience_ = stream_->regular() ? kLongestAnswer : 0;
        }
        const auto time = exchange.has_query_time_sec()
                              ? time_of(exchange.query_time_sec(), exchange.query_time_nsec())
                              : written_at(exchange);
        show(exchange.query_message(), time, ends);
    }

    void show(const std::string& bytes, std::optional<Nanoseconds> time, Query query) {
        if (bytes.size() < kDnsHeaderSize || bytes.size() > kMaxMessage) {
            count(counters_, bytes.size() < kDnsHeaderSize ? "short_message" : "long_message");
            return;
        }
        if (!time) {
            count(counters_, "dnstap_no_time");
        }
        last_time_ = time.value_or(last_time_);
        query.time = last_time_;
        query.message = bytes_of(bytes);
        const Nanoseconds at = steady_.of_close(last_time_);
        latest_ = std::max(latest_, at);
        waiting_.put(at, query);
    }

    /// Who asked whom, and how: a message from the asker to the server, without time and bytes.
    Query ends_of(const dnstap::Exchange& exchange) {
        const auto source = address_of(exchange.query_address());
        const auto destination = address_of(exchange.response_address());
        const bool ipv6 = source        ? source->is_v6()
                          : destination ? destination->is_v6()
                                        : exchange.socket_family() == 2;
        Query ends;
        ends.transport = transport_of(exchange);
        ends.source = {.address = source.value_or(unspecified(ipv6)),
                       .port = static_cast<std::uint16_t>(exchange.query_port())};
        ends.destination = {.address = destination.value_or(example_server(ipv6)),
                            .port = exchange.has_response_port()
                                        ? static_cast<std::uint16_t>(exchange.response_port())
                                        : kDnsPort};
        if (!source) {
            count(counters_, "dnstap_no_source");
        }
        if (!destination) {
            count(counters_, "dnstap_no_destination");
        }
        return ends;
    }

    Transport transport_of(const dnstap::Exchange& exchange) {
        constexpr std::uint32_t kDnscrypt = 5; // over UDP, and the next number over TCP
        constexpr std::array kKnown{Transport::kUdp, Transport::kUdp,   Transport::kTcp,
                                    Transport::kTls, Transport::kHttps, Transport::kUdp,
                                    Transport::kTcp, Transport::kQuic}; // 0: not told
        const std::uint32_t number = exchange.socket_protocol();
        if (number == kDnscrypt || number == kDnscrypt + 1 || number >= kKnown.size()) {
            count(counters_, "dnstap_other_transport");
        }
        return number < kKnown.size() ? kKnown.at(number) : Transport::kUdp;
    }

    Input input_;
    FrameReader reader_;
    dnstap::Frame frame_;
    WaitingMessages waiting_;           ///< by steady time
    SteadyTime steady_{kLongestAnswer}; ///< for the order alone
    Nanoseconds latest_ = 0;            ///< steady time of all read
    Nanoseconds patience_ = 0;
    Nanoseconds last_time_ = 0;
    bool finished_ = false;
    Recent<std::uint32_t> recent_{kForEver, 2 * kRemembered}; ///< not told again, by key_of()
    std::array<std::uint64_t, kTypes> types_{};
};

bool is_frame_stream(Bytes head) {
    Cursor in(head);
    const std::uint32_t escape = in.u32be();
    const std::uint32_t size = in.u32be();
    const std::uint32_t type = in.u32be();
    return in.ok() && escape == 0 && size >= 4 && size <= FSTRM_CONTROL_FRAME_LENGTH_MAX &&
           type == kControlStart;
}

} // namespace

const Form kDnstapForm{.fits = is_frame_stream, .open = open_as<DnstapSource>};

} // namespace reprise::trace
