#pragma once
// Files that grow until the run ends, on a disk that others may fill; and files that are whole or
// not there.

#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// Buffered. Every method throws SystemError naming the file where the disk refuses (full,
/// read-only, broken): what was written before stays readable.
class AppendFile {
public:
    enum class Existing : std::uint8_t { kRefuse, kReplace };

    AppendFile(std::string path, Existing existing);
    ~AppendFile(); ///< gives room back

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

// Content goes to NAME.part first, and the name follows. A full disk or a kill leaves what stood
// under the name before, never half of the new.

/// Writes a file that can be made again, replacing one of that name; does not wait for the disk.
void write_whole(const std::string& path, std::string_view text);

/// Room on the disk for a file that is written at the end, when the disk may be full. Unless it is
/// written, the destructor gives the room back.
class ReservedFile {
public:
    /// Throws SystemError where there is no room.
    ReservedFile(std::string path, std::uint64_t size);
    ~ReservedFile();

    /// Takes room for so many bytes in all, where there is some.
    void grow(std::uint64_t size);

    /// Writes the file into its room, waits for the disk if asked, and gives it its name; once.
    /// Throws SystemError.
    void write(std::string_view text, bool wait = true);

private:
    std::string path_;
    std::string part_;
    FileDescriptor file_;
    std::uint64_t size_ = 0;
    bool written_ = false;
};

} // namespace reprise
