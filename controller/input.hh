#pragma once
// Where the messages of a replay come from: a trace, or the generator.

#include "core/trace/reader.hh"

#include <cstdint>
#include <string>

namespace reprise::controller {

class Input {
public:
    Input() = default;
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;
    virtual ~Input() = default;

    /// Next message or close, good until the next call; false at the end.
    virtual bool next(trace::Message& message) = 0;

    /// Begins again. Throws where the trace has gone.
    virtual void restart() = 0;

    [[nodiscard]] virtual std::string description() const = 0;
    /// As of trace::Reader; over all laps.
    [[nodiscard]] virtual trace::Counters counters() const = 0;
    [[nodiscard]] virtual std::uint64_t packets() const = 0;
    [[nodiscard]] virtual std::string trouble() const = 0;
    /// Of this lap, 0 to 1; 0 where it is not known.
    [[nodiscard]] virtual double share_read() const = 0;
};

/// A capture file or pipe.
class TraceInput : public Input {
public:
    /// Throws trace::TraceError where it cannot be read at all.
    TraceInput(std::string path, trace::ReaderOptions options);

    bool next(trace::Message& message) override { return reader_.next(message); }

    void restart() override;

    [[nodiscard]] std::string description() const override { return reader_.description(); }

    [[nodiscard]] trace::Counters counters() const override;

    [[nodiscard]] std::uint64_t packets() const override { return packets_ + reader_.packets(); }

    [[nodiscard]] std::string trouble() const override;

    [[nodiscard]] double share_read() const override { return reader_.share_read(); }

private:
    std::string path_;
    trace::ReaderOptions options_;
    trace::Reader reader_;
    trace::Counters counters_; ///< of the laps before
    std::uint64_t packets_ = 0;
    std::string trouble_;
};

} // namespace reprise::controller
