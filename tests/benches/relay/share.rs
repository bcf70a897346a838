//! Processes that are held to a part of a core, so that they are what a measurement meets first: control groups of Linux,
//! of either version, where this user may make them.
use std::{fs, io, path::PathBuf, thread, time::Duration};

/// The quota is given anew so often: the shorter, the less is done in bursts.
const PERIOD: Duration = Duration::from_millis(10);

/// A control group; removed when dropped, which is after its processes have ended.
pub(crate) struct Share {
    folder: PathBuf,
}

impl Share {
    /// A group whose processes together have `percent` of a core.
    pub(crate) fn new(name: &str, percent: u64) -> io::Result<Share> {
        let name = format!("muretai-bench-{}-{name}", std::process::id());
        let (period, quota) = (PERIOD.as_micros(), PERIOD.as_micros() * u128::from(percent) / 100);
        for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"].map(PathBuf::from) {
            if root.join("cgroup.procs").exists() {
                let share = Share::make(root.join(name))?;
                share.write("cpu.cfs_period_us", &period.to_string())?;
                share.write("cpu.cfs_quota_us", &quota.to_string())?;
                return Ok(share);
            }
        }
        let root = PathBuf::from("/sys/fs/cgroup");
        fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
        let share = Share::make(root.join(name))?;
        share.write("cpu.max", &format!("{quota} {period}"))?;
        Ok(share)
    }

    fn make(folder: PathBuf) -> io::Result<Share> {
        fs::create_dir(&folder)?;
        Ok(Share { folder })
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), text)
    }

    /// Puts a process with all its threads into the group.
    pub(crate) fn hold(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // The kernel may still be about to let its last process go.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
