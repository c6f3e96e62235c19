use s3s::dto::{
    CreateBucketInput, CreateBucketOutput, DeleteObjectInput, DeleteObjectOutput, GetObjectInput,
    GetObjectLockConfigurationInput, GetObjectLockConfigurationOutput, GetObjectOutput,
    GetObjectRetentionInput, GetObjectRetentionOutput, HeadBucketInput, HeadBucketOutput,
    HeadObjectInput, HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output,
    ObjectLockConfiguration, ObjectLockEnabled, ObjectLockRetention, ObjectLockRetentionMode,
    PutObjectInput, PutObjectOutput, PutObjectRetentionInput, PutObjectRetentionOutput, Timestamp,
    TimestampFormat,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// When each object's lock ends, and the objects whose lock can't be changed.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Mutex<BTreeMap<String, jiff::Timestamp>>>, Arc<Mutex<BTreeSet<String>>>);

impl Held {
    pub(crate) fn ends(&self) -> BTreeMap<String, jiff::Timestamp> {
        self.0.lock().unwrap().clone()
    }

    /// Acts as if this many days had passed.
    pub(crate) fn age(&self, days: i64) {
        let by = jiff::SignedDuration::from_hours(24 * days);
        self.0.lock().unwrap().values_mut().for_each(|end| *end -= by);
    }

    /// Sets whether this object's lock can't be changed.
    pub(crate) fn stick(&self, key: &str, sticks: bool) {
        let mut stuck = self.1.lock().unwrap();
        match sticks {
            true => drop(stuck.insert(key.to_owned())),
            false => drop(stuck.remove(key)),
        }
    }

    fn is_stuck(&self, key: &str) -> bool {
        self.1.lock().unwrap().contains(key)
    }

    fn end(&self, key: &str) -> Option<jiff::Timestamp> {
        self.0.lock().unwrap().get(key).copied()
    }

    fn refuse(&self, key: &str) -> S3Result<()> {
        match self.end(key) {
            Some(end) if end > jiff::Timestamp::now() => {
                Err(s3_error!(AccessDenied, "it is locked"))
            }
            _ => Ok(()),
        }
    }

    fn lock(&self, key: String, until: Option<&Timestamp>) {
        if let Some(until) = until {
            self.0.lock().unwrap().insert(key, read(until));
        }
    }
}

fn read(time: &Timestamp) -> jiff::Timestamp {
    let mut text = vec![];
    time.format(TimestampFormat::DateTime, &mut text).unwrap();
    String::from_utf8(text).unwrap().parse().unwrap()
}

/// The files in a folder, locked as requested: a bucket with object lock, without versions.
pub(crate) struct LockingFiles {
    pub(crate) files: FileSystem,
    pub(crate) held: Held,
    /// The folder.
    pub(crate) folder: PathBuf,
}

#[async_trait::async_trait]
impl S3 for LockingFiles {
    async fn create_bucket(
        &self,
        asked: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        self.files.create_bucket(asked).await
    }

    async fn get_object(
        &self,
        asked: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        self.files.get_object(asked).await
    }

    async fn head_bucket(
        &self,
        asked: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.files.head_bucket(asked).await
    }

    async fn head_object(
        &self,
        asked: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.files.head_object(asked).await
    }

    async fn list_objects_v2(
        &self,
        asked: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.files.list_objects_v2(asked).await
    }

    async fn put_object(
        &self,
        asked: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        self.held.refuse(&asked.input.key)?;
        let (key, until) =
            (asked.input.key.clone(), asked.input.object_lock_retain_until_date.clone());
        let done = self.files.put_object(asked).await?;
        self.held.lock(key, until.as_ref());
        Ok(done)
    }

    async fn delete_object(
        &self,
        asked: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.held.refuse(&asked.input.key)?;
        self.files.delete_object(asked).await
    }

    async fn get_object_lock_configuration(
        &self,
        _asked: S3Request<GetObjectLockConfigurationInput>,
    ) -> S3Result<S3Response<GetObjectLockConfigurationOutput>> {
        let enabled = Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED));
        let configuration =
            ObjectLockConfiguration { object_lock_enabled: enabled, ..Default::default() };
        Ok(S3Response::new(GetObjectLockConfigurationOutput {
            object_lock_configuration: Some(configuration),
        }))
    }

    async fn put_object_retention(
        &self,
        asked: S3Request<PutObjectRetentionInput>,
    ) -> S3Result<S3Response<PutObjectRetentionOutput>> {
        let input = asked.input;
        if !self.folder.join(&*input.bucket).join(&input.key).exists() {
            return Err(s3_error!(NoSuchKey, "it isn't there"));
        }
        if self.held.is_stuck(&input.key) {
            return Err(s3_error!(AccessDenied, "it stays as it is"));
        }
        let until = input.retention.and_then(|retention| retention.retain_until_date);
        // No lock is ever shortened.
        if let (Some(there), Some(until)) = (self.held.end(&input.key), &until)
            && there > read(until)
        {
            return Err(s3_error!(AccessDenied, "it is locked for longer"));
        }
        self.held.lock(input.key, until.as_ref());
        Ok(S3Response::new(PutObjectRetentionOutput::default()))
    }

    async fn get_object_retention(
        &self,
        asked: S3Request<GetObjectRetentionInput>,
    ) -> S3Result<S3Response<GetObjectRetentionOutput>> {
        let Some(end) = self.held.end(&asked.input.key) else {
            return Err(s3_error!(NoSuchKey, "NoSuchObjectLockConfiguration"));
        };
        let end = std::time::SystemTime::from(end);
        let mode = ObjectLockRetentionMode::from_static(ObjectLockRetentionMode::COMPLIANCE);
        let retention =
            ObjectLockRetention { mode: Some(mode), retain_until_date: Some(Timestamp::from(end)) };
        Ok(S3Response::new(GetObjectRetentionOutput { retention: Some(retention) }))
    }
}
