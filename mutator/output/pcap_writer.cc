#include "mutator/output/pcap_writer.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/trace/forms/pcap/pcap_format.hh"
#include "mutator/output/output_path.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace reprise::mutator {
namespace {

constexpr size_t kBufferSize = 256UL << 10U;

template <typename T> Bytes as_bytes(const T& value) {
    return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

FileDescriptor open_output(const std::string& name, const std::string& working) {
    const int fd = ::open(working.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        throw_unwritable(name, errno);
    }
    return FileDescriptor(fd);
}

FileDescriptor open_standard_output() {
    if (::isatty(STDOUT_FILENO) != 0) {
        throw UsageError("standard output is a terminal; send it to a pipe or give -o FILE");
    }
    return FileDescriptor(check(::dup(STDOUT_FILENO), "dup standard output"));
}

} // namespace

PcapWriter::PcapWriter(const std::string& path) : name_(path == "-" ? "standard output" : path) {
    if (path == "-") {
        file_ = open_standard_output();
    } else {
        path_.emplace(path);
        file_ = open_output(name_, path_->working());
    }
    buffer_.reserve(kBufferSize);
    append(as_bytes(PcapFileHeader{}));
}

void PcapWriter::write(Nanoseconds time, Bytes packet, std::uint32_t missing) {
    if (time < 0 || time / kSecond > kLastPcapSecond) {
        throw Error(fmt::format("{}: a packet at {} ns lies outside pcap's years 1970 to 2106; "
                                "change the start time or the length",
                                name_, time));
    }
    const auto size = static_cast<std::uint32_t>(packet.size());
    const PcapPacketHeader header{static_cast<std::uint32_t>(time / kSecond),
                                  static_cast<std::uint32_t>(time % kSecond), size, size + missing};
    append(as_bytes(header));
    append(packet);
    ++packets_;
}

void PcapWriter::append(Bytes data) {
    if (buffer_.size() + data.size() > kBufferSize) {
        flush();
    }
    buffer_.insert(buffer_.end(), data.begin(), data.end());
    bytes_ += data.size();
}

void PcapWriter::flush() {
    Bytes left(buffer_);
    while (!left.empty()) {
        const ssize_t written = ::write(file_.get(), left.data(), left.size());
        if (written < 0 && errno != EINTR) {
            throw Error(fmt::format("write {}: {}; free some space or give another place", name_,
                                    std::strerror(errno)));
        }
        left = left.subspan(written < 0 ? 0 : static_cast<size_t>(written));
    }
    buffer_.clear();
}

void PcapWriter::finish() {
    flush();
    file_.reset();
    if (path_) {
        path_->commit();
    }
}

} // namespace reprise::mutator
