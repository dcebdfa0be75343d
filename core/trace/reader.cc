#include "core/trace/reader.hh"

#include "core/trace/assembler.hh"
#include "core/trace/packet.hh"
#include "core/trace/source.hh"

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::trace {

class Reader::State {
public:
    State(const std::string& path, const ReaderOptions& options)
        : source_(open_source(path)), assembler_(options) {}

    bool next(Message& message) {
        while (!assembler_.pop(message)) {
            if (finished_) {
                return false;
            }
            advance();
        }
        return true;
    }

    [[nodiscard]] const PacketSource& source() const { return *source_; }

    [[nodiscard]] std::uint64_t packets() const { return packets_; }

    const Counters& counters() { return shown_ = assembler_.tally().named(); }

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
    Counters shown_;
};

Reader::Reader(const std::string& path, const ReaderOptions& options)
    : state_(std::make_unique<State>(path, options)) {}

Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

bool Reader::next(Message& message) { return state_->next(message); }

const Counters& Reader::counters() const { return state_->counters(); }

std::uint64_t Reader::packets() const { return state_->packets(); }

const std::string& Reader::trouble() const { return state_->source().trouble(); }

double Reader::share_read() const { return state_->source().share_read(); }

std::string Reader::description() const { return state_->source().description(); }

} // namespace reprise::trace
