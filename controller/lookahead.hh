#pragma once
#include "controller/input.hh"
#include "controller/source_table.hh"
#include "core/trace/reader.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::controller {

/// An input read a few messages ahead of its user. With 100,000 sources every query waits for a
/// line of the table of sources to come from memory, which costs as much as all the rest of the
/// reading; ahead of time, nobody waits. Not for pipes: what they say last would be held back.
///
/// Counters and packets are those of what was read, so up to kAhead messages more than were
/// yielded.
class Lookahead : public Input {
public:
    /// Borrows the table; it must outlive this.
    Lookahead(std::unique_ptr<Input> input, const SourceTable& sources)
        : input_(std::move(input)), sources_(&sources) {}

    bool next(trace::Message& message) override;

    void restart() override;

    [[nodiscard]] std::string description() const override { return input_->description(); }

    [[nodiscard]] trace::Counters counters() const override { return input_->counters(); }

    [[nodiscard]] std::uint64_t packets() const override { return input_->packets(); }

    [[nodiscard]] std::string trouble() const override { return input_->trouble(); }

    [[nodiscard]] double share_read() const override { return input_->share_read(); }

private:
    /// Several times as long on its way through here as memory takes.
    static constexpr size_t kAhead = 8;

    struct Place {
        trace::Message message;
        std::vector<std::uint8_t> bytes; ///< of the message, which only borrows them
    };

    bool fill();

    std::unique_ptr<Input> input_;
    const SourceTable* sources_;
    std::array<Place, kAhead> ring_;
    size_t first_ = 0;
    size_t count_ = 0;
    bool ended_ = false;
};

} // namespace reprise::controller
