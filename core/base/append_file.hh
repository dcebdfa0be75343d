#pragma once
// A file that grows until the run ends, on a disk that others may fill.

#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// Takes room on the disk behind the end of a file without changing its size; returns an errno, or
/// 0 also where the file system cannot do that.
int take_room(int fd, std::uint64_t from, std::uint64_t size);

/// Waits until all is on the disk, gives back room that was taken, and closes. Throws SystemError
/// naming `path`. `size` is that of the file.
void close_for_good(FileDescriptor& file, std::uint64_t size, const std::string& path);

/// Writes all of it. Throws SystemError naming `path`.
void write_all(int fd, Bytes data, const std::string& path);
void write_all(int fd, std::string_view text, const std::string& path);

/// Buffered. Every method throws SystemError naming the file where the disk refuses (full,
/// read-only, broken): what was written before stays readable.
class AppendFile {
public:
    enum class Existing : std::uint8_t { kRefuse, kReplace };

    AppendFile(std::string path, Existing existing);
    ~AppendFile(); ///< gives room back
    AppendFile(const AppendFile&) = delete;
    AppendFile& operator=(const AppendFile&) = delete;

    void append(Bytes data);
    void append(std::string_view text);

    /// Hands what is buffered to the kernel.
    void flush();

    /// Takes room on the disk for what is buffered and so many bytes after it: whoever fills the
    /// disk, these can still be written. close() gives back what is left. Where the file system
    /// cannot take room it does nothing. After it has thrown, the file goes on as before.
    void reserve(std::uint64_t bytes);

    /// Waits until all is on the disk.
    void close();

private:
    std::string path_;
    FileDescriptor file_;
    std::uint64_t size_ = 0;     ///< bytes handed to the kernel
    std::uint64_t reserved_ = 0; ///< end of the room taken, from the file's beginning
    std::vector<std::uint8_t> buffer_;
};

} // namespace reprise
