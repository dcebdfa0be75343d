#include "core/trace/capture_source.hh"

#include "core/trace/capture/source.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reader.hh"
#include "core/trace/reassembly/assembler.hh"
#include "core/trace/reassembly/packet.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace reprise::trace {
namespace {

class CaptureSource final : public MessageSource {
public:
    CaptureSource(std::unique_ptr<PacketSource> packets, const ReaderOptions& options)
        : source_(std::move(packets)), assembler_(options) {}

    bool next(Message& message) override {
        while (!assembler_.pop(message)) {
            if (finished_) {
                return false;
            }
            advance();
        }
        return true;
    }

    [[nodiscard]] std::uint64_t packets() const override { return packets_; }

    [[nodiscard]] Counters counters() const override { return assembler_.tally().named(); }

    [[nodiscard]] const std::string& trouble() const override { return source_->trouble(); }

    [[nodiscard]] double share_read() const override { return source_->share_read(); }

    [[nodiscard]] std::string description() const override { return source_->description(); }

private:
    void advance() {
        Packet packet;
        if (source_->next(packet)) {
            ++packets_;
            assembler_.feed(packet);
        } else {
            finished_ = true;
            assembler_.finish();
        }
    }

    std::unique_ptr<PacketSource> source_;
    Assembler assembler_;
    std::uint64_t packets_ = 0;
    bool finished_ = false;
};

} // namespace

std::unique_ptr<MessageSource> open_capture(std::unique_ptr<PacketSource> packets,
                                            const ReaderOptions& options) {
    return std::make_unique<CaptureSource>(std::move(packets), options);
}

} // namespace reprise::trace
