#pragma once
// The client's side of a PacketBed: a packet carrier and what it reports.

#include "core/base/error.hh"
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/packet/packet_carrier.hh"
#include "querier/packet/testing/bed.hh"
#include "querier/process.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/testing/messages.hh"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <signal.h> // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace reprise::querier::testing {

inline constexpr Nanoseconds kPatience = 10 * kSecond;

inline ReplayOptions packet_options(size_t in_flight, bool answers) {
    ReplayOptions options;
    options.in_flight = in_flight;
    options.answers = answers;
    return options;
}

inline const ReplayOptions kQuick = packet_options(4096, false);
inline const ReplayOptions kWhole = packet_options(4096, true);

/// Number `n` of a family, its port too.
inline Endpoint source_number(std::uint32_t n, std::uint8_t family) {
    const auto host =
        fmt::format(fmt::runtime(family == 4 ? "10.{}.{}.{}" : "2001:db8:{:x}::{:x}:{:x}"),
                    n >> 16U, (n >> 8U) & 0xffU, n & 0xffU);
    return {.address = IpAddress::parse(host).value_or(IpAddress{}),
            .port = static_cast<std::uint16_t>(1024 + n * 7 % 60000)};
}

/// Keeps what the carrier reports.
class Heard final : public CarrierEvents {
public:
    struct Message {
        Owner owner = 0;
        std::vector<std::uint8_t> bytes;
        size_t size = 0;
        Nanoseconds received = 0;
    };

    void on_reply(Owner owner, const Reply& reply) override {
        replies.push_back({.owner = owner,
                           .bytes = {reply.bytes.begin(), reply.bytes.end()},
                           .size = reply.size,
                           .received = reply.received});
    }

    void on_sent(std::uint32_t pending, const SendCall& call) override {
        sent.push_back(pending);
        last_sent = call.before;
    }

    void on_refused(std::uint32_t /*pending*/, SendResult result) override {
        refused.push_back(result);
    }

    void on_failed(std::uint32_t /*pending*/, Status /*status*/) override {}

    std::vector<Message> replies;
    std::vector<std::uint32_t> sent;
    std::vector<SendResult> refused;
    Nanoseconds last_sent = 0;
};

/// A carrier and what it needs.
class Client {
public:
    explicit Client(const ReplayOptions& options, const Servers& servers = PacketBed::servers())
        : carrier(
              packet_carrier({.options = options, .servers = servers}, {{.network = network_,
                                                                         .resources = resources_,
                                                                         .queries = queries_,
                                                                         .matcher = matcher_,
                                                                         .stamps = stamps_,
                                                                         .statistics = statistics},
                                                                        heard})) {}

    SendResult stage(const Endpoint& source, const std::vector<std::uint8_t>& message) {
        Query query = make_query(0, 0, message);
        query.source = source;
        return carrier->submit(queries_.take(query));
    }

    /// Sends a query from each of `count` sources; the server is never more than a batch behind, as
    /// the wire holds 256 packets.
    void send(PacketBed& bed, std::uint32_t count, std::uint8_t family) {
        for (std::uint32_t n = 0; n < count; ++n) {
            const auto message = make_message(static_cast<std::uint16_t>(n), "a.example.");
            ASSERT_EQ(stage(source_number(n, family), message), SendResult::kStaged);
            if (n % 32 == 31 || n + 1 == count) {
                const size_t before = bed.count();
                const size_t staged = n % 32 + 1;
                carrier->flush();
                ASSERT_TRUE(wait([&] { return bed.count() >= before + staged; }));
            }
        }
    }

    void poll() { carrier->poll(); }

    /// Polls until `count` replies came.
    bool await_replies(size_t count) {
        return wait([&] {
            poll();
            return heard.replies.size() >= count;
        });
    }

    template <typename Condition> static bool wait(Condition condition) {
        const Nanoseconds limit = SteadyClock::now() + kPatience;
        while (!condition()) {
            if (SteadyClock::now() > limit) {
                return false;
            }
            usleep(500);
        }
        return true;
    }

    Heard heard;
    Statistics statistics;

private:
    KernelNetwork network_;
    Resources resources_{1024};
    PendingQueries queries_{8192};
    Matcher matcher_{queries_, 8192, kSecond};
    StampClock stamps_;

public:
    std::unique_ptr<Carrier> carrier;
};

/// A child that holds a carrier until it is killed.
class Holder {
public:
    Holder() {
        std::array<int, 2> ends{};
        check(pipe(ends.data()), "pipe");
        pid_ = check(fork(), "fork");
        if (pid_ == 0) {
            const Client client(kQuick);
            check(write(ends[1], "x", 1), "write");
            pause();
            _exit(0);
        }
        close(ends[1]);
        char one = 0;
        ready_ = read(ends[0], &one, 1) == 1;
        close(ends[0]);
    }

    ~Holder() { kill(); }

    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

    [[nodiscard]] bool ready() const { return ready_; }

    void kill() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
            pid_ = -1;
        }
    }

private:
    pid_t pid_ = -1;
    bool ready_ = false;
};

} // namespace reprise::querier::testing
