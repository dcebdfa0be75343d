// Any bytes as a packet, with TCP's checksum put right: what is sent has right checksums, and an
// answer to the query that it asks comes back once. The first byte chooses the settings.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/responder.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/stateless/userspace/transfer.hh"
#include "proxy/testing/packets.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace {

using namespace reprise;                   // NOLINT(google-build-using-namespace): a test
using namespace reprise::proxy::stateless; // NOLINT(google-build-using-namespace): a test

void require(bool condition) {
    if (!condition) {
        std::abort();
    }
}

class World : public Outside {
public:
    void send(const Reply& reply) override {
        std::vector<std::uint8_t> packet(kMostHeaders + reply.data.size());
        packet.resize(write_segment(packet, reply, 1));
        require(proxy::testing::checksums_hold(packet));
    }

    void ask(unsigned socket, const Endpoint& server, Bytes message) override {
        socket_ = socket;
        server_ = server;
        answer_.assign(2, 0);
        answer_.insert(answer_.end(), message.begin(), message.end());
        answer_[4] |= 0x80;
    }

    bool relay(const Segment& segment, std::uint16_t mss, Nanoseconds now) override {
        transfer_.emplace(segment, mss, now);
        return true;
    }

    bool relayed(const Segment& segment, Nanoseconds now) override {
        if (transfer_) {
            transfer_->take(segment, now);
            transfer_->append(Bytes(answer_));
            transfer_->send(now, [this](const Reply& reply) { send(reply); });
        }
        return transfer_.has_value();
    }

    unsigned socket_ = 0;
    Endpoint server_;
    std::vector<std::uint8_t> answer_ = std::vector<std::uint8_t>(100);
    std::optional<Transfer> transfer_;
};

/// Nothing gets past a wrong one, so nothing would be found.
void repair_checksum(std::vector<std::uint8_t>& packet) {
    const proxy::Headers headers = proxy::read_headers(packet);
    if (headers.fault != proxy::Verdict::kPassed || headers.protocol != proxy::kTcp ||
        packet.size() < headers.transport + 20U) {
        return;
    }
    store16(&packet[headers.transport + 16U], 0);
    Checksum sum;
    sum.add(Bytes(packet).subspan(headers.addresses(), 2 * headers.address_size()));
    sum.add(proxy::kTcp);
    sum.add(static_cast<std::uint16_t>(packet.size() - headers.transport));
    sum.add(Bytes(packet).subspan(headers.transport));
    sum.store(&packet[headers.transport + 16U]);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    std::vector<std::uint8_t> packet(data + 1, data + size);
    repair_checksum(packet);
    Random random(1);
    World world;
    StatelessCounts counters{};
    proxy::StatelessOptions options;
    options.early_ack = (data[0] & 1U) != 0;
    options.fin_last = (data[0] & 2U) != 0;
    options.axfr_detect = (data[0] & 4U) != 0;
    Responder responder(options, 1'500, 0, random, world, counters);
    for (const Nanoseconds now : {1, 2}) {
        responder.take_packet(packet, now);
    }
    require(counters.syn == counters.syn_ack);
    if (counters.queries != 0) {
        require(counters.queries == 2 && counters.retransmitted == 1);
        responder.take_answer(world.socket_, world.server_, world.answer_, 3);
        require(counters.replies == 1 && responder.pending().size() == 0);
    }
    const size_t whole = packet.size();
    const Bytes left = truncate_reply(packet, 40);
    require(left.size() == whole || left.empty() || proxy::testing::checksums_hold(left));
    return 0;
}
