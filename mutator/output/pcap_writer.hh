#pragma once
// Writes captures: pcap with nanosecond times (magic a1b23c4d) and raw IP packets (LINKTYPE_RAW,
// 101).

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "mutator/output/output_file.hh"

#include <cstdint>
#include <string>

namespace reprise::mutator {

/// A buffered pcap file, or standard output for "-". The file appears under its name with finish();
/// a writer destroyed before leaves nothing behind. Opening throws UsageError, writing throws Error
/// naming the file.
class PcapWriter {
public:
    explicit PcapWriter(const std::string& path);

    /// Appends one IP packet, of which the last `missing` bytes were not captured. `time` is since
    /// the epoch, 0 to the year 2106 (32-bit seconds).
    void write(Nanoseconds time, Bytes packet, std::uint32_t missing = 0);

    /// Writes what is buffered, closes, and gives the file its name.
    void finish();

    [[nodiscard]] std::uint64_t packets() const { return packets_; }

    [[nodiscard]] std::uint64_t bytes() const { return file_.bytes() + buffer_.size(); }

private:
    void append(Bytes data);
    void flush();

    OutputFile file_;
    std::string buffer_;
    std::uint64_t packets_ = 0;
};

} // namespace reprise::mutator
